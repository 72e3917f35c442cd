package containerd_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

// What an event told is known to the next healthd, even if this one is killed at once, and the
// task is gone.
func TestRecordsOutliveAKill(t *testing.T) {
	_, private := engine(t)
	dir := t.TempDir()
	e := connect(t, private, containerd.Config{StateDir: dir})
	stream, err := e.Subscribe(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sh", "-c", "exit 42"}})
	for {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID == id && ev.Action == runtime.ActionDie {
			break
		}
	}
	copied := t.TempDir() // as a kill would leave it
	file, err := os.ReadFile(filepath.Join(dir, "containerd-containerd.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "containerd-containerd.db"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	before := inspect(t, e, id)
	if _, err := private.Task(t, id).Delete(private.In(t, "")); err != nil {
		t.Fatal(err)
	}
	next := connect(t, private, containerd.Config{StateDir: copied})
	after := inspect(t, next, id)
	if after.State != runtime.Exited || after.ExitCode != 42 || after.Run() != before.Run() || !after.FinishedAt.Equal(before.FinishedAt) {
		t.Errorf("got %+v, want %+v", after, before)
	}
	if c := inspect(t, connect(t, private, containerd.Config{StateDir: t.TempDir()}), id); c.State != runtime.Created {
		t.Errorf("without records it is %+v", c)
	}
	// Its log goes on.
	if err := next.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = containerd.New(containerd.Config{Endpoint: private.Endpoint, StateDir: copied})
	if err == nil || !strings.Contains(err.Error(), "another healthd uses") {
		t.Errorf("two use the same records: %v", err)
	}
}

func TestDamagedRecords(t *testing.T) {
	_, private := engine(t)
	dir := t.TempDir()
	for _, text := range []string{"nonsense", strings.Repeat("x", 100000), ""} {
		if err := os.WriteFile(filepath.Join(dir, "containerd-containerd.db"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e := connect(t, private, containerd.Config{StateDir: dir})
		if _, err := e.List(t.Context()); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An operator may stop what has ended, and what healthd would start after its back-off. Nothing
// ends then, so the next subscription tells of it, and so does each later one: a healthd that
// died may not have written it down.
func TestStopOfWhatHasEndedWhileHealthdIsAway(t *testing.T) {
	_, private := engine(t)
	conf := containerd.Config{StateDir: t.TempDir()}
	wanted := func(c runtime.Traits) bool { return c.Labels["watched"] == t.Name() }
	id := private.Run(t, containerdtest.RunOptions{Name: "ended", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	var since time.Time
	t.Run("healthd sees the end", func(t *testing.T) {
		l := scenarios.Record(t, &runtime.Watcher{Name: "containerd", Source: connect(t, private, conf), Wanted: wanted})
		n := l.WaitFor(t, 0, "synced start")
		private.Signal(t, id, syscall.SIGKILL)
		l.WaitForEnd(t, n, "ended", 137)
		since = l.SeenUntil()
	})
	private.OperatorStops(t, id, syscall.SIGTERM)
	for _, name := range []string{"the next hears of the stop", "so does the one after it"} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, private, conf)
			run := inspect(t, e, id).Run()
			l := scenarios.Record(t, &runtime.Watcher{
				Name: "containerd", Source: e, Since: since, Wanted: wanted,
				KnownRun: func(string) (runtime.Run, bool) { return run, false },
			})
			l.WaitFor(t, 0, "synced start")
			stopped := func(u runtime.Update) bool { return u.Kind == runtime.Stopped }
			if !slices.ContainsFunc(l.Updates(), func(u runtime.Update) bool { return stopped(u) || slices.ContainsFunc(u.Causes, stopped) }) {
				t.Errorf("no word of the operator's stop: %+v", l.Updates())
			}
		})
	}
}
