package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
)

// shortPipe returns a pipe that takes one page.
func shortPipe(t *testing.T) (r, w *os.File, size int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if size, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		t.Fatal(err)
	}
	return r, w, size
}

// What takes the log may hang or be gone: healthd starts, works and ends as ever.
func TestLogWithoutReader(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, r, w *os.File, size int){
		"full": func(t *testing.T, _, w *os.File, size int) {
			if _, err := w.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(_ *testing.T, r, _ *os.File, _ int) { r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, size := shortPipe(t)
			stop(t, r, w, size)
			p := newProcess(t, "unix://"+filepath.Join(t.TempDir(), "docker.sock"), "")
			p.startInto(t, w)
			p.notify.await(t, "WATCHDOG=1")
			p.signal(syscall.SIGHUP)
			p.notify.awaitAny(t, "RELOADING=1", func(got string) bool { return strings.HasPrefix(got, "RELOADING=1") })
			if name == "gone" {
				patience.Until(t, "the loss is told of", func() error { return lossTold(t, p) })
			}
			p.signal(syscall.SIGTERM)
			if code := p.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// lossTold is an error while status or the metrics tell of no lost line.
func lossTold(t *testing.T, p *process) error {
	t.Helper()
	if got := healthd(t, "status", "--socket", p.socket); !strings.Contains(got.stderr, "warning: healthd's log loses lines, ") {
		return fmt.Errorf("no warning in %+v", got)
	}
	if _, body := p.get(t, "/metrics"); !regexp.MustCompile(`(?m)^healthd_log_lines_dropped_total [1-9]`).MatchString(body) {
		return errors.New("no metric")
	}
	return nil
}

// An error at the start goes nowhere, and is an exit code all the same.
func TestStartErrorWithoutReader(t *testing.T) {
	t.Parallel()
	if code := intoClosedStderr(t, "run", "--config", filepath.Join(t.TempDir(), "none.toml")); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
}

// sink is what a queue writes to.
type sink struct {
	lines []string
	err   error
	gate  chan struct{} // a write waits for one
}

func (s *sink) write(text string) func() error {
	return func() error {
		if s.gate != nil {
			<-s.gate
		}
		if s.err == nil {
			s.lines = append(s.lines, text)
		}
		return s.err
	}
}

func (s *sink) note(lost int) error { return s.write(fmt.Sprint("lost ", lost))() }

// What finds no room is dropped, and told of where it would stand.
func TestLogQueueThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{gate: make(chan struct{})}
		q := newLogQueue(s.note)
		q.put(1, s.write("first"))
		synctest.Wait() // it hangs in the sink
		for i := range maxQueuedLines + 2 {
			q.put(1, s.write(fmt.Sprint(i)))
		}
		if err := q.flush(time.Minute); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		if got, want := q.problem(), "healthd's log loses lines, 2 so far: what reads it hangs, or is gone"; got != want {
			t.Errorf("got %q", got)
		}
		close(s.gate)
		synctest.Wait()
		q.put(1, s.write("later"))
		if err := q.close(time.Minute); err != nil {
			t.Error(err)
		}
		if n := len(s.lines); n != maxQueuedLines+3 || !slices.Equal(s.lines[:2], []string{"first", "0"}) ||
			!slices.Equal(s.lines[n-3:], []string{fmt.Sprint(maxQueuedLines - 1), "lost 2", "later"}) {
			t.Errorf("%d lines, the last ones %q", n, s.lines[max(0, n-3):])
		}
		if q.dropped.Load() != 2 || q.problem() != "" {
			t.Errorf("%d dropped, %q", q.dropped.Load(), q.problem())
		}
	})
}

// Few long lines are as much as many short ones.
func TestLogQueueIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{gate: make(chan struct{})}
		q := newLogQueue(s.note)
		q.put(maxQueuedBytes, s.write("first"))
		synctest.Wait()
		q.put(maxQueuedBytes, s.write("second"))
		q.put(1, s.write("third"))
		close(s.gate)
		if err := q.close(time.Minute); err != nil || !slices.Equal(s.lines, []string{"first", "second", "lost 1"}) {
			t.Errorf("%q, %v", s.lines, err)
		}
	})
}

// A sink that is lost may come back.
func TestLogQueueWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{err: syscall.EPIPE}
		q := newLogQueue(s.note)
		q.put(1, s.write("first"))
		q.put(1, s.write("second"))
		synctest.Wait()
		s.err = nil
		q.put(1, s.write("third"))
		if err := q.close(time.Minute); err != nil || !slices.Equal(s.lines, []string{"lost 2", "third"}) || q.dropped.Load() != 2 {
			t.Errorf("%q, %v", s.lines, err)
		}
		q.put(1, s.write("after the end"))
		if q.dropped.Load() != 3 || q.flush(patience.Limit) != nil {
			t.Error("the end is no end")
		}
	})
}

// A SIGHUP that comes while healthd starts is a reload when it has started.
func TestHangupAmidTheStart(t *testing.T) {
	hangups, reloaded := make(chan os.Signal, 1), make(chan struct{})
	hangups <- syscall.SIGHUP
	defer handleSignals(hangups, func() {}, func() { close(reloaded) }, zap.NewNop())()
	<-reloaded
}
