package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

// updateLog is what a Watcher sent.
type updateLog struct {
	mu      sync.Mutex
	updates []runtime.Update
	names   map[string]string
	stop    func()
}

// startWatcher records what w sends until the test ends.
func startWatcher(t *testing.T, w *runtime.Watcher) *updateLog {
	t.Helper()
	d := &updateLog{names: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, d.add) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(d.stop)
	return d
}

// watch follows the containers with the label watched=test's name.
func watch(t *testing.T, e *containerd.Engine) *updateLog {
	t.Helper()
	return startWatcher(t, &runtime.Watcher{Name: "containerd", Source: e, Wanted: func(_ string, labels map[string]string) bool { return labels["watched"] == t.Name() }})
}

func watched(t *testing.T, o containerdtest.RunOptions) containerdtest.RunOptions {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels["watched"] = t.Name()
	return o
}

func (d *updateLog) add(_ context.Context, u runtime.Update) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updates = append(d.updates, u)
	return nil
}

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
		text := fmt.Sprintf("observed %s %s", u.Container.Name, u.Container.State)
		if u.Container.State == runtime.Exited {
			text += fmt.Sprintf(" %d", u.Container.ExitCode)
		}
		return text
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

// waitFor waits until the lines from the n-th on contain want in this order, and returns the
// index after the last of them.
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

func (d *updateLog) mustNotContain(t *testing.T, unwanted ...string) {
	t.Helper()
	for _, l := range d.lines(0) {
		for _, what := range unwanted {
			if l == what {
				t.Errorf("the watcher sent %q: %q", what, d.lines(0))
			}
		}
	}
}

var deafSleep = []string{"sleep", "1000"} // process 1 ignores TERM

func TestWatchLifecycle(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "life"}))
	private.Run(t, containerdtest.RunOptions{Name: "unwatched", Cmd: deafSleep})
	n = d.waitFor(t, n, "observed life running")
	waitUntilServing(t, e, id)
	if err := e.Stop(t.Context(), id, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "died life 0", "observed life exited 0")
	d.mustNotContain(t, "killed life 15", "stopped life")
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life running")
	waitUntilServing(t, e, id)
	private.OperatorStops(t, id, syscall.SIGTERM)
	n = d.waitFor(t, n, "killed life 15", "died life 0", "observed life exited 0")
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life running")
	ctx := private.In(t, "")
	if err := private.Task(t, id).Pause(ctx); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life paused")
	if err := private.Task(t, id).Resume(ctx); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed life running")
	private.SetLabel(t, "", id, "nerdctl/name", "second")
	n = d.waitFor(t, n, "observed second running")
	private.OperatorStops(t, id, syscall.SIGKILL)
	n = d.waitFor(t, n, "killed second 15", "died second 137", "observed second exited 137")
	private.Remove(t, id)
	d.waitFor(t, n, "removed second")
	d.mustNotContain(t, "observed unwatched running", "lost", "synced lossy")
}

// A host's kill, a crash and ctr's kill look the same: nobody's stop.
func TestWatchKillThatNobodyTellsOf(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "killed", Cmd: deafSleep}))
	n = d.waitFor(t, n, "observed killed running")
	private.Signal(t, id, syscall.SIGKILL)
	n = d.waitFor(t, n, "died killed 137", "observed killed exited 137")
	private.OperatorStops(t, id, syscall.SIGTERM) // of what has ended
	n = d.waitFor(t, n, "stopped killed")
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = d.waitFor(t, n, "observed killed running")
	private.OperatorStops(t, id, syscall.SIGHUP) // process 1 ignores it
	n = d.waitFor(t, n, "killed killed 15")
	private.OperatorStops(t, id, syscall.SIGKILL) // tells nothing new
	d.waitFor(t, n, "died killed 137", "observed killed exited 137")
}

// While healthd stops a run, an operator does, too.
func TestOperatorStopsWhatHealthdStops(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "both", Cmd: []string{"sh", "-c", "trap 'echo again' TERM; echo ready; while :; do sleep 0.01; done"}}))
	n = d.waitFor(t, n, "observed both running")
	waitForLog(t, private, id, "ready\n")
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(t.Context(), id, time.Second) }()
	waitForLog(t, private, id, "ready\nagain\n")
	private.OperatorStops(t, id, syscall.SIGTERM)
	d.waitFor(t, n, "killed both 15", "killed both 15", "died both 137", "observed both exited 137")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	kills, err := e.KillEvents(t.Context(), inspect(t, e, id).Run())
	if err != nil || len(kills) != 2 || !kills[0].Time.Before(kills[1].Time) {
		t.Errorf("the signals to the run: got %+v, %v", kills, err)
	}
	for _, l := range d.updates {
		if l.Kind == runtime.Killed && !slices.ContainsFunc(kills, func(k runtime.Event) bool { return k.Time.Equal(l.Time) }) {
			t.Errorf("%+v is told as another signal later", l)
		}
	}
}

func TestHealthResultsAreNoNews(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "checked", Cmd: deafSleep}))
	d.waitFor(t, n, "observed checked running")
	stream, err := e.Subscribe(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		private.SetLabel(t, "", id, "nerdctl/healthstate", fmt.Sprintf(`{"Status":"healthy","FailingStreak":%d}`, i))
	}
	private.SetLabel(t, "", id, "other", "label")
	for {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != id {
			continue
		}
		if ev.Action != runtime.ActionUpdate || ev.Labels["other"] != "label" {
			t.Errorf("got %+v", ev)
		}
		break
	}
}

func TestWatchOOM(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "greedy", Memory: 16 << 20, Cmd: []string{"sh", "-c", "sleep 0.3; tail /dev/zero"}}))
	n = d.waitFor(t, n, "died greedy 137", "observed greedy exited 137")
	eventually(t, "it is known to be killed for want of memory", func() bool { return inspect(t, e, id).OOMKilled })
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, n, "observed greedy running")
	if c := inspect(t, e, id); c.State == runtime.Running && c.OOMKilled {
		t.Errorf("got %+v", c)
	}
}

func TestWatchManyAtOnce(t *testing.T) {
	e, private := engine(t)
	const many = 20
	d := watch(t, e)
	d.waitFor(t, 0, "synced start")
	ids := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() { ids[i] = private.Run(t, watched(t, containerdtest.RunOptions{Cmd: deafSleep})) })
	}
	wg.Wait()
	eventually(t, "all run", func() bool { return d.count(runtime.Running) == many })
	late := watch(t, connect(t, private, containerd.Config{}))
	late.waitFor(t, 0, "synced start")
	if n := late.count(runtime.Running); n != many {
		t.Errorf("got %d containers", n)
	}
	for _, id := range ids {
		wg.Go(func() { private.Remove(t, id) })
	}
	wg.Wait()
	eventually(t, "all are gone", func() bool { return d.count("") == 0 })
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

// Events are filtered by containerd, come in order and by one clock.
func TestEvents(t *testing.T) {
	e, private := engine(t)
	since, err := e.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Subscribe(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Next(); err != nil || !first.Time.Equal(since) || first.Action != runtime.ActionExec {
		t.Errorf("got %+v, %v", first, err)
	}
	id := private.Run(t, containerdtest.RunOptions{Name: "told", Labels: map[string]string{"a": "b"}, Cmd: deafSleep})
	before := inspect(t, e, id)
	if _, _, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	private.OperatorStops(t, id, syscall.SIGKILL)
	var got []string
	for len(got) == 0 || got[len(got)-1] != "die" {
		ev, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != id {
			continue
		}
		got = append(got, string(ev.Action))
		now, _ := e.Clock(t.Context())
		if lag := now.Sub(ev.Time); lag < 0 || lag > time.Minute {
			t.Errorf("%s: lag %v", ev.Action, lag)
		}
		if ev.Action == runtime.ActionStart && !before.Run().IsStart(ev.Time) {
			t.Errorf("the start event of %v is not that of %v", ev.Time, before.StartedAt)
		}
	}
	if s := fmt.Sprint(got); s != "[create start update exec_die kill die]" {
		t.Errorf("got %s", s)
	}
}
