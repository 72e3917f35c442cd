package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

func commandAnswers(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf})
	for _, tt := range []struct {
		name   string
		argv   []string
		limit  int
		output string
		code   int
	}{
		{"success", []string{"true"}, 100, "", 0},
		{"exit code", []string{"sh", "-c", "exit 7"}, 100, "", 7},
		{"killed by a signal", []string{"sh", "-c", "kill -9 $$"}, 100, "", 137},
		{"no shell", []string{"echo", "$HOME", "*"}, 100, "$HOME *\n", 0},
		{"stdout before stderr", []string{"sh", "-c", "echo err >&2; echo out; exit 3"}, 100, "out\nerr\n", 3},
		{"limit over both", []string{"sh", "-c", "echo 12345; echo 67890 >&2"}, 8, "12345\n67", 0},
		{"more output than a pipe holds", []string{"sh", "-c", "yes | head -c 1000000; exit 4"}, 6, "y\ny\ny\n", 4},
		{"no output wanted", []string{"echo", "hello"}, 0, "", 0},
		{"a shell's own not found", []string{"sh", "-c", "/nosuch; exit $?"}, 0, "", 127},
		{"output held open", []string{"sh", "-c", "echo here; sleep 1000 & exit 1"}, 100, "here\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			output, code, timedOut, err := e.Exec(t.Context(), id, tt.argv, patience.Limit, tt.limit, nil)
			if string(output) != tt.output || code != tt.code || timedOut || err != nil {
				t.Errorf("got %q, %d, %v, %v; want %q, %d", output, code, timedOut, err, tt.output, tt.code)
			}
			if took := time.Since(began); took >= patience.Limit {
				t.Errorf("took %v, as long as its timeout", took)
			}
		})
	}
	// A newer engine would tell of no end while the one that a command left lives.
	if n := ProcessesRunning(id, "sleep"); n != 1 && n != 2 {
		t.Errorf("got %d sleeps, want the container's and maybe the one that a command left", n)
	}
}

func commandIsLikeTheMainProcess(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{User: 1234, Env: []string{"SAID=hello"}, Cmd: deaf})
	// On a busy machine the main process is still being started.
	script := "while grep -q runc /proc/1/comm; do :; done; id -u; id -g; pwd; echo $SAID; test -t 0 || grep CapEff /proc/self/status /proc/1/status | cut -d: -f3 | uniq | wc -l"
	output, code, _, err := e.Exec(t.Context(), id, []string{"sh", "-c", script}, time.Minute, 1000, nil)
	if want := "1234\n1234\n/\nhello\n1\n"; string(output) != want || code != 0 || err != nil {
		t.Errorf("got %q, %d, %v; want %q", output, code, err, want)
	}
}

func commandTimesOut(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	for name, script := range map[string]string{
		"one process":           "exec sleep 1001",
		"a child":               "echo hello; sleep 1001; echo never",
		"children of children":  "sh -c 'sleep 1001 & sleep 1001'; sleep 1001",
		"an orphan":             "(sleep 1001 &); sleep 1001",
		"an orphan of its own":  "(setsid sh -c 'sleep 1001; true' &); sleep 1001",
		"deaf":                  "trap '' TERM INT HUP; while :; do sleep 1001; done",
		"breeding":              "f() { sleep 1001 & sleep 0.01; f; }; f",
		"output into its pipes": "yes",
	} {
		t.Run(name, func(t *testing.T) {
			briefly(t, func(timeout time.Duration) error {
				began := time.Now()
				output, _, timedOut, err := e.Exec(t.Context(), id, []string{"sh", "-c", script}, timeout, 1000, nil)
				if took := time.Since(began); !timedOut || err != nil || took < timeout {
					return fmt.Errorf("got %q, %v, %v after %v; want a timeout after %v", output, timedOut, err, took, timeout)
				}
				if name == "a child" && string(output) != "hello\n" {
					return fmt.Errorf("got output %q", output)
				}
				return nil
			})
			for _, program := range []string{"sleep", "yes", "sh"} {
				if n := ProcessesRunning(id, program); n > 0 {
					t.Errorf("left %d of %s", n, program)
				}
			}
		})
	}
	if c, err := e.Inspect(t.Context(), id); err != nil || c.State != runtime.Running {
		t.Errorf("the container: got %+v, %v; want it running", c, err)
	}
}

func commandTellsThatItRuns(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	calls := 0
	_, code, timedOut, err := e.Exec(t.Context(), id, []string{"sleep", "3"}, time.Minute, 100, func() {
		calls++
		waitForCommand(t, id)
	})
	if calls != 1 || code != 0 || timedOut || err != nil {
		t.Errorf("told %d times; exit code %d, timed out %v, %v", calls, code, timedOut, err)
	}
}

func commandCannotBeStarted(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: deaf})
	for program, says := range map[string]string{"/nosuch": "no such file", "/proc/version": "permission denied"} {
		calls := 0
		_, _, timedOut, err := e.Exec(t.Context(), id, []string{program}, time.Minute, 100, func() { calls++ })
		if err == nil || timedOut || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, %v; want an error that says %q", program, timedOut, err, says)
		}
		if calls > 0 {
			t.Errorf("%s: told %d times of a process that was not started", program, calls)
		}
	}
}

// waitForCommand waits for the one sleep in an idle container.
func waitForCommand(t *testing.T, id string) {
	t.Helper()
	Eventually(t, "the command runs", func() bool { return ProcessesRunning(id, "sleep") == 1 })
}

func commandIsCancelled(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		waitForCommand(t, id)
	}()
	_, _, timedOut, err := e.Exec(ctx, id, []string{"sleep", "1000"}, time.Minute, 100, nil)
	if !errors.Is(err, context.Canceled) || timedOut {
		t.Errorf("got %v, %v; want it cancelled", timedOut, err)
	}
	Eventually(t, "the command is gone", func() bool { return ProcessesRunning(id, "sleep") == 0 })
}

func commandCannotBeAsked(t *testing.T, p Private) {
	e := connect(t, p)
	stopped := p.Create(t, Container{Cmd: deaf})
	paused := p.Run(t, Container{Cmd: deaf})
	p.Pause(t, paused)
	for _, tt := range []struct {
		name, id string
		argv     []string
		is       error
		says     string
	}{
		{"no such container", "0123", []string{"true"}, runtime.ErrNotFound, "cannot run a command in container 0123"},
		{"not running", stopped, []string{"true"}, nil, "running"},
		{"paused", paused, []string{"true"}, nil, "paused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, timedOut, err := e.Exec(t.Context(), tt.id, tt.argv, time.Minute, 100, nil)
			if err == nil || timedOut || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, %v; want an error that says %q", timedOut, err, tt.says)
			}
			t.Log(err)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %v", err, tt.is)
			}
		})
	}
}

func commandOutlivedByNobody(t *testing.T, p Private) {
	e := connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	c := inspect(t, e, id)
	go func() {
		waitForCommand(t, id)
		signalFromHost(t, c, syscall.SIGKILL)
	}()
	_, code, timedOut, err := e.Exec(t.Context(), id, []string{"sleep", "1000"}, time.Minute, 100, nil)
	if timedOut || (err == nil && code != 137) {
		t.Errorf("got %d, %v, %v; want 137 or an error", code, timedOut, err)
	}
}

// Two healthds may ask in one container: neither ends what the other's commands do.
func commandOfAnotherHealthd(t *testing.T, p Private) {
	e, other := connect(t, p), connect(t, p)
	id := p.Run(t, Container{Cmd: idle})
	answered := make(chan error, 1)
	go func() {
		_, code, timedOut, err := other.Exec(t.Context(), id, []string{"sh", "-c", "sleep 4; exit 0"}, time.Minute, 100, nil)
		if code != 0 || timedOut {
			err = fmt.Errorf("exit code %d, timed out %v, %w", code, timedOut, err)
		}
		answered <- err
	}()
	waitForCommand(t, id)
	for range 3 {
		if _, code, _, err := e.Exec(t.Context(), id, []string{"sh", "-c", "sleep 1111 & exit 0"}, time.Minute, 100, nil); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
	}
	if err := <-answered; err != nil {
		t.Errorf("the other's command: %v", err)
	}
}
