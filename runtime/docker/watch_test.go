package docker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
	"healthd/runtime/docker/dockertest"
)

// updateLog is what a Watcher sent.
type updateLog struct {
	mu      sync.Mutex
	updates []runtime.Update
	names   map[string]string
}

func watch(t *testing.T, private *dockertest.Engine, wanted func(string, map[string]string) bool) *updateLog {
	t.Helper()
	return startWatcher(t, &runtime.Watcher{Name: "docker", Source: connect(t, private), Wanted: wanted})
}

// startWatcher records what w sends until the test ends.
func startWatcher(t *testing.T, w *runtime.Watcher) *updateLog {
	t.Helper()
	d := &updateLog{names: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, d.add) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	return d
}

func (d *updateLog) add(_ context.Context, u runtime.Update) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updates = append(d.updates, u)
	return nil
}

// seenUntil returns the newest SeenUntil.
func (d *updateLog) seenUntil() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.updates) == 0 {
		return time.Time{}
	}
	return d.updates[len(d.updates)-1].SeenUntil
}

// lines returns the updates from the n-th on, a line each.
func (d *updateLog) lines(n int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, u := range d.updates[n:] {
		lines = append(lines, d.format(u))
	}
	return lines
}

func (d *updateLog) format(u runtime.Update) string {
	name := d.names[u.ID]
	switch u.Kind {
	case runtime.Observed:
		d.names[u.ID] = u.Container.Name
		return fmt.Sprintf("observed %s %s", u.Container.Name, u.Container.State)
	case runtime.Removed:
		return "removed " + name
	case runtime.Killed:
		return fmt.Sprintf("killed %s %d", name, u.Signal)
	case runtime.Died:
		return fmt.Sprintf("died %s %d", name, u.ExitCode)
	case runtime.Stopped:
		return "stopped " + name
	case runtime.Lost:
		return "lost"
	case runtime.Synced:
		return "synced " + u.Reason
	case runtime.Connected:
		return "connected " + [...]string{"unknown", "complete", "restart"}[u.Replay]
	case runtime.Bookmark:
		return "bookmark"
	}
	return "?"
}

// waitFor waits until the lines from the n-th on contain want in this order, and returns
// the index after the last of them.
func (d *updateLog) waitFor(t *testing.T, n int, want ...string) int {
	t.Helper()
	end := n
	defer func() {
		if t.Failed() {
			t.Logf("want %q, got %q", want, d.lines(n))
		}
	}()
	eventually(t, fmt.Sprintf("the watcher sends %q", want), func() bool {
		i := 0
		for at, l := range d.lines(n) {
			if i < len(want) && l == want[i] {
				i, end = i+1, n+at+1
			}
		}
		return i == len(want)
	})
	return end
}

func (d *updateLog) mustNotContain(t *testing.T, what string) {
	t.Helper()
	for _, l := range d.lines(0) {
		if l == what {
			t.Errorf("the watcher sent %q: %q", what, d.lines(0))
		}
	}
}

func TestWatchLifecycle(t *testing.T) {
	e, private := engine(t)
	d := watch(t, private, func(_ string, labels map[string]string) bool { return labels["watched"] == "yes" })
	n := d.waitFor(t, 0, "synced start")
	labels := map[string]string{"watched": "yes"}
	id := private.Run(t, dockertest.RunOptions{Name: "life", Labels: labels})
	private.Run(t, dockertest.RunOptions{Name: "unwatched"})
	n = d.waitFor(t, n, "observed life running")
	waitUntilServing(t, e, id)
	if err := e.Stop(t.Context(), id, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, n, "killed life 15", "died life 0", "stopped life")
	n = d.waitFor(t, n, "killed life 15", "observed life exited")
	if err := private.Client().ContainerRestart(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life running")
	if _, _, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := private.Client().ContainerPause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life paused")
	if err := private.Client().ContainerUnpause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life running")
	if err := private.Client().ContainerRename(t.Context(), id, "second"); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed second running")
	if err := private.Client().ContainerKill(t.Context(), id, "KILL"); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "killed second 9", "died second 137", "observed second exited")
	private.Remove(t, id)
	d.waitFor(t, n, "removed second")
	d.mustNotContain(t, "observed unwatched running")
	d.mustNotContain(t, "lost")
}

func TestWatchAddressChanges(t *testing.T) {
	_, private := engine(t)
	private.Network(t, "watched-net")
	d := watch(t, private, func(name string, _ map[string]string) bool { return name == "connected" })
	d.waitFor(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{Name: "connected", Network: "none"})
	n := d.waitFor(t, 0, "observed connected running")
	if err := private.Client().NetworkDisconnect(t.Context(), "none", id, true); err != nil {
		t.Fatal(err)
	}
	if err := private.Client().NetworkConnect(t.Context(), "watched-net", id, nil); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, n, "observed connected running")
	eventually(t, "the new address is observed", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		last := d.updates[len(d.updates)-1]
		return last.Container != nil && last.Container.Network == "watched-net" && last.Container.Address != ""
	})
}

func TestWatchOverEngineRestarts(t *testing.T) {
	private := dockertest.Start(t)
	for i := range 5 {
		private.Run(t, dockertest.RunOptions{Name: fmt.Sprint("c", i), Network: "none", Cmd: []string{"sleep", "1000"}})
	}
	dies := private.Run(t, dockertest.RunOptions{Name: "dies", Cmd: []string{"testserver"}})
	e := connect(t, private)
	in, err := private.Client().ContainerInspect(t.Context(), dies)
	if err != nil {
		t.Fatal(err)
	}
	d := watch(t, private, nil)
	n := d.waitFor(t, 0, "synced start")
	private.Kill(t)
	n = d.waitFor(t, n, "lost")
	began := time.Now()
	private.Up(t)
	n = d.waitFor(t, n, "synced reconnect")
	t.Logf("back %v after the start of the engine", time.Since(began))
	private.Stop(t)
	n = d.waitFor(t, n, "lost")
	killProcess(t, in.State.Pid)
	private.Up(t)
	d.waitFor(t, n, "observed dies exited", "synced reconnect")
	if c, err := e.Inspect(t.Context(), dies); err != nil || c.State != runtime.Exited {
		t.Errorf("got %+v, %v", c, err)
	}
	for i := range 5 {
		d.mustNotContain(t, fmt.Sprintf("removed c%d", i))
		d.mustNotContain(t, fmt.Sprintf("observed c%d exited", i))
	}
}

func TestWatchManyAtOnce(t *testing.T) {
	_, private := engine(t)
	const many = 30
	d := watch(t, private, func(_ string, labels map[string]string) bool { return labels["many"] == "yes" })
	d.waitFor(t, 0, "synced start")
	ids := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			ids[i] = private.Run(t, dockertest.RunOptions{Network: "none", Cmd: []string{"sleep", "1000"}, Labels: map[string]string{"many": "yes"}})
		})
	}
	wg.Wait()
	eventually(t, "all run", func() bool { return d.count(runtime.Running) == many })
	began := time.Now()
	late := watch(t, private, func(_ string, labels map[string]string) bool { return labels["many"] == "yes" })
	late.waitFor(t, 0, "synced start")
	t.Logf("%d containers in sync after %v", late.count(runtime.Running), time.Since(began))
	if n := late.count(runtime.Running); n != many {
		t.Errorf("got %d containers", n)
	}
	for _, id := range ids {
		wg.Go(func() { private.Remove(t, id) })
	}
	wg.Wait()
	eventually(t, "all are gone", func() bool { return d.count("") == 0 })
	if lines := d.lines(0); len(lines) == 0 {
		t.Error("no update was sent")
	}
	d.mustNotContain(t, "synced lossy")
}

// count returns how many containers are in the state, or in any.
func (d *updateLog) count(state runtime.State) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := map[string]runtime.State{}
	for _, u := range d.updates {
		switch u.Kind {
		case runtime.Observed:
			newest[u.ID] = u.Container.State
		case runtime.Removed:
			delete(newest, u.ID)
		}
	}
	n := 0
	for _, s := range newest {
		if state == "" || s == state {
			n++
		}
	}
	return n
}

func TestEventsAreFiltered(t *testing.T) {
	e, private := engine(t)
	began := time.Now()
	stream, err := e.Subscribe(t.Context(), began)
	if err != nil {
		t.Fatal(err)
	}
	id := private.Run(t, dockertest.RunOptions{Name: "filtered", Labels: map[string]string{"a": "b"}, Cmd: []string{"sleep", "1000"}})
	if _, _, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := private.Client().ContainerKill(t.Context(), id, "KILL"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != id {
			continue
		}
		got = append(got, string(ev.Action))
		if lag := time.Since(ev.Time); lag < 0 || lag > time.Minute {
			t.Errorf("%s: lag %v", ev.Action, lag)
		}
		if ev.Action != runtime.ActionNetwork && (ev.Name != "filtered" || len(ev.Labels) != 1 || ev.Labels["a"] != "b") {
			t.Errorf("%s: got %q, %v", ev.Action, ev.Name, ev.Labels)
		}
		if ev.Action == runtime.ActionDie {
			break
		}
	}
	want := "[create network start exec_die kill die]"
	if s := fmt.Sprint(got); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}
