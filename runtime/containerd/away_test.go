package containerd_test

import (
	"context"
	"errors"
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

func TestShimDies(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "orphan", Cmd: deafSleep}))
	n = d.waitFor(t, n, "observed orphan running")
	killProcess(t, private.Shim(t, id))
	n = d.waitFor(t, n, "died orphan 137", "observed orphan exited 255")
	if c := inspect(t, e, id); !strings.Contains(c.Error, "shim died") {
		t.Errorf("got %+v", c)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, n, "observed orphan running")
}

func TestShimHangs(t *testing.T) {
	private := containerdtest.Start(t)
	e := connect(t, private, containerd.Config{})
	other := private.Run(t, watched(t, containerdtest.RunOptions{Name: "other", Cmd: deafSleep}))
	var hung []string
	for _, name := range []string{"hung", "hung2", "hung3"} {
		hung = append(hung, private.Run(t, watched(t, containerdtest.RunOptions{Name: name, Cmd: deafSleep})))
	}
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	for _, id := range hung {
		private.FreezeShim(t, id)
	}
	began := time.Now()
	list, err := e.List(t.Context())
	if err != nil || len(list) != 4 {
		t.Errorf("got %+v, %v", list, err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the list took %v", took)
	}
	t.Logf("listed in %v", time.Since(began))
	began = time.Now()
	if c := inspect(t, e, other); c.State != runtime.Running || time.Since(began) > time.Second {
		t.Errorf("got %+v after %v", c, time.Since(began))
	}
	for _, s := range list {
		if s.Name != "other" && !s.State.Alive() {
			t.Errorf("got %+v", s)
		}
	}
	_, inspected := e.Inspect(t.Context(), hung[0])
	stopped := e.Stop(t.Context(), hung[0], time.Second)
	started := e.Start(t.Context(), hung[0])
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, _, _, executed := e.Exec(ctx, hung[0], []string{"true"}, time.Second, 10, nil)
	for what, err := range map[string]error{"inspect": inspected, "stop": stopped, "start": started, "exec": executed} {
		if err == nil || errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
		t.Log(what, err)
	}
	private.Signal(t, other, syscall.SIGKILL)
	d.waitFor(t, n, "observed other exited 137")
	d.mustNotContain(t, "removed hung", "observed hung exited 255")
}

// nerdctl rm -f: its kill looks like a crash, and healthd is about to start it again.
func TestStartOfWhatIsRemoved(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	for range 5 {
		id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "removed", Cmd: deafSleep}))
		n = d.waitFor(t, n, "observed removed running")
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			private.Remove(t, id)
		}()
		n = d.waitFor(t, n, "died removed 137")
		err := e.Start(t.Context(), id)
		<-removed
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		t.Log(err)
		private.Remove(t, id)
		n = d.waitFor(t, n, "removed removed")
	}
}

// containerd's restart plugin starts it, too.
func TestStartBesideTheRestartPlugin(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "twice", Cmd: deafSleep, Labels: map[string]string{"containerd.io/restart.policy": "always"}}))
	n = d.waitFor(t, n, "observed twice running")
	private.SetLabel(t, "", id, "containerd.io/restart.status", "running") // the plugin would be faster than the test
	n = d.waitFor(t, n, "observed twice running")
	private.Signal(t, id, syscall.SIGKILL)
	n = d.waitFor(t, n, "died twice 137", "observed twice running")
	for range 3 {
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	d.waitFor(t, n, "observed twice running")
}

func TestBadLabels(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Name: "garbage", Labels: map[string]string{
		"nerdctl/networks": "{", "nerdctl/stop-timeout": "abc", "nerdctl/auto-remove": "maybe", "nerdctl/healthstate": "[]", "nerdctl/healthcheck": "nonsense",
		"containerd.io/restart.explicitly-stopped": "perhaps", "containerd.io/restart.status": "?", "io.containerd.image.config.stop-signal": "SIGNONSENSE",
		"nerdctl/log-uri": "::", "containerd.io/restart.policy": "sometimes", "nerdctl/state-dir": "/etc",
	}})
	private.Create(t, containerdtest.RunOptions{Name: "circle", ID: "circle", Labels: map[string]string{"nerdctl/networks": `["container:circle"]`}})
	c := inspect(t, e, id)
	if c.State != runtime.Created || c.StopTimeout >= 0 || c.RestartPolicy != "no" || c.AutoRemove || c.HasHealthcheck || c.StopSignalNumber() != 15 || c.NetworkOwner != "" {
		t.Errorf("got %+v", c)
	}
	inspect(t, e, "circle")
	if _, err := e.List(t.Context()); err != nil {
		t.Error(err)
	}
	if status, _, err := e.Health(t.Context(), id); status != "none" || err != nil {
		t.Errorf("got %q, %v", status, err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Error(err)
	}
}
