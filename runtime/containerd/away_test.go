package containerd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestWatchOverEngineRestarts(t *testing.T) {
	private := containerdtest.Start(t)
	e := connect(t, private, containerd.Config{})
	for _, name := range []string{"stays", "also"} {
		private.Run(t, watched(t, containerdtest.RunOptions{Name: name, Cmd: deafSleep}))
	}
	dies := private.Run(t, watched(t, containerdtest.RunOptions{Name: "dies", Cmd: deafSleep}))
	before := inspect(t, e, dies)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	private.Kill(t)
	n = d.waitFor(t, n, "lost")
	private.Up(t)
	up := time.Now()
	n = d.waitFor(t, n, "connected complete", "synced reconnect")
	t.Logf("in sync %v after containerd answers", time.Since(up))
	private.Stop(t)
	n = d.waitFor(t, n, "lost")
	killProcess(t, before.Pid)
	private.Up(t)
	d.waitFor(t, n, "connected complete", "observed dies exited 137", "synced reconnect")
	if c := inspect(t, e, dies); c.Run() != before.Run() {
		t.Errorf("got %+v, want the run of %v", c, before.StartedAt)
	}
	for _, name := range []string{"stays", "also"} {
		d.mustNotContain(t, "removed "+name, "observed "+name+" exited 255", "observed "+name+" exited 137")
	}
}

// healthdAway runs one healthd, does something while it is away, and returns what another one
// tells, which knows what the first one saw.
func healthdAway(t *testing.T, private *containerdtest.Engine, meanwhile func(), want ...string) {
	t.Helper()
	conf := containerd.Config{StateDir: t.TempDir()}
	first := connect(t, private, conf)
	known := map[string]*runtime.Container{}
	d := watch(t, first)
	d.waitFor(t, 0, "synced start")
	d.stop()
	for _, u := range d.updates {
		if u.Kind == runtime.Observed {
			known[u.ID] = u.Container
		}
	}
	since := d.seenUntil()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	second := startWatcher(t, &runtime.Watcher{
		Name: "containerd", Source: connect(t, private, conf), Since: since,
		KnownRun: func(id string) (runtime.Run, bool) {
			if c := known[id]; c != nil {
				return c.Run(), c.State.Alive()
			}
			return runtime.Run{}, false
		},
		Wanted: func(_ string, labels map[string]string) bool { return labels["watched"] == t.Name() },
	})
	second.waitFor(t, 0, append([]string{"connected complete"}, want...)...)
	second.mu.Lock()
	defer second.mu.Unlock()
	for _, u := range second.updates {
		if u.Kind != runtime.Observed || known[u.ID] == nil {
			continue
		}
		for _, cause := range u.Causes {
			t.Logf("%s: %s", u.Container.Name, (&updateLog{names: map[string]string{u.ID: u.Container.Name}}).format(cause))
		}
		if got := len(u.Causes) > 0; got != strings.HasPrefix(u.Container.Name, "stopped") {
			t.Errorf("%s: told of an operator's stop: %v", u.Container.Name, got)
		}
	}
}

func TestEndsWhileHealthdIsAway(t *testing.T) {
	_, private := engine(t)
	ids := map[string]string{}
	for _, name := range []string{"crashed", "stopped", "stopped-and-deleted", "deleted", "lives"} {
		ids[name] = private.Run(t, watched(t, containerdtest.RunOptions{Name: name, Cmd: []string{"sh", "-c", "trap 'exit 7' USR1; while :; do sleep 0.01; done"}}))
	}
	delete := func(id string) {
		if _, err := private.Task(t, id).Delete(private.In(t, ""), client.WithProcessKill); err != nil {
			t.Error(err)
		}
	}
	healthdAway(t, private, func() {
		for _, name := range []string{"stopped", "stopped-and-deleted"} {
			private.OperatorStops(t, ids[name], syscall.SIGKILL)
		}
		eventually(t, "it installed its handler", func() bool {
			private.Signal(t, ids["crashed"], syscall.SIGUSR1)
			return status(t, private, ids["crashed"]) == client.Stopped
		})
		eventually(t, "it ended", func() bool { return status(t, private, ids["stopped-and-deleted"]) == client.Stopped })
		delete(ids["stopped-and-deleted"])
		delete(ids["deleted"])
	}, "synced start")
	e := connect(t, private, containerd.Config{})
	if c := inspect(t, e, ids["lives"]); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
}

func status(t *testing.T, private *containerdtest.Engine, id string) client.ProcessStatus {
	t.Helper()
	st, err := private.Task(t, id).Status(private.In(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	return st.Status
}

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
