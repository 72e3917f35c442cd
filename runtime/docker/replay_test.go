package docker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
)

// TestReplayOverEngineRestarts: whoever listens or comes later knows that the engine has
// forgotten, however it ended.
func TestReplayOverEngineRestarts(t *testing.T) {
	for _, flag := range []string{"--live-restore=true", "--live-restore=false"} {
		t.Run(flag, func(t *testing.T) {
			private := dockertest.Start(t, flag)
			e := connect(t, private)
			d := watch(t, private, nil)
			n := d.reads(t, 0, "connected unknown", "synced start")
			id := private.Run(t, dockertest.RunOptions{Name: "web"})
			n = d.reads(t, n, "observed web running")
			serves(t, e, id)
			for _, down := range []func(testing.TB){private.Stop, private.Kill} {
				down(t)
				n = d.reads(t, n, "lost")
				seen := d.seen()
				began := time.Now()
				private.Up(t)
				n = d.reads(t, n, "connected restart", "synced reconnect")
				t.Logf("in sync again %v after the start of the engine", time.Since(began))
				// The next end is to come after an event of this life.
				if err := e.Start(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if _, code, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0); err != nil || code != 0 {
					t.Fatal(code, err)
				}
				u := beginning(t, e, seen)
				if u.Replay != runtime.ReplayRestart || u.KilledByEngineBefore.IsZero() != (flag == "--live-restore=true") {
					t.Errorf("a later one says %v, killed by the engine before %v", u.Replay, u.KilledByEngineBefore)
				}
			}
		})
	}
}

// replayOf says what the engine tells a Watcher that goes on from since.
func replayOf(t *testing.T, e *docker.Engine, since time.Time) runtime.Replay {
	t.Helper()
	return beginning(t, e, since).Replay
}

// beginning is what a Watcher that goes on from since begins with.
func beginning(t *testing.T, e *docker.Engine, since time.Time) runtime.Update {
	t.Helper()
	enough := errors.New("enough")
	var got runtime.Update
	began := time.Now()
	err := (&runtime.Watcher{Name: "docker", Source: e, Since: since}).Run(t.Context(), func(_ context.Context, u runtime.Update) error {
		if u.Kind != runtime.Connected {
			t.Errorf("got %+v first", u)
		}
		got = u
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	t.Logf("connected in %v", time.Since(began))
	return got
}

func TestReplayWhileAway(t *testing.T) {
	private := dockertest.Start(t)
	e := connect(t, private)
	d := watch(t, private, nil)
	n := d.reads(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{Name: "web", Cmd: []string{"sleep", "1000"}})
	d.reads(t, n, "observed web running")
	first := d.seen()
	if got := replayOf(t, e, first); got != runtime.ReplayComplete {
		t.Errorf("after nothing: got %v", got)
	}
	// Probes' commands fill the engine's memory, but are heard.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 12 {
				if _, code, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0); err != nil || code != 0 {
					t.Error(code, err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "execs are heard", func() bool { return replayOf(t, e, d.seen()) == runtime.ReplayComplete })
	if got := replayOf(t, e, first); got != runtime.ReplayUnknown {
		t.Errorf("after 288 events of execs: got %v", got)
	}
	last := d.seen()
	for i := range 100 {
		rename(t, private, id, fmt.Sprint("name", i))
	}
	if got := replayOf(t, e, last); got != runtime.ReplayComplete {
		t.Errorf("after 100 more: got %v", got)
	}
	for i := range 200 {
		rename(t, private, id, fmt.Sprint("name", i))
	}
	if got := replayOf(t, e, last); got != runtime.ReplayUnknown {
		t.Errorf("after 300 more: got %v", got)
	}
}

func rename(t *testing.T, private *dockertest.Engine, id, name string) {
	t.Helper()
	if err := private.Client().ContainerRename(t.Context(), id, name); err != nil {
		t.Fatal(err)
	}
}

func TestRecallOfAFrozenEngine(t *testing.T) {
	private := dockertest.Start(t)
	e := connect(t, private)
	if m, err := e.EventHistory(t.Context(), time.Now()); err != nil || m.HasEvent {
		t.Errorf("got %+v, %v", m, err)
	}
	private.Freeze(t)
	defer private.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if m, err := e.EventHistory(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v, want the deadline", m, err)
	}
}

// Of the signals to one container the engine tells those of its present run.
func TestKills(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, dockertest.RunOptions{Name: "kills", Cmd: []string{"sh", "-c", "trap : HUP; while :; do sleep 0.1; done"}})
	other := private.Run(t, dockertest.RunOptions{Name: "other"})
	for _, s := range []struct{ id, signal string }{{id, "HUP"}, {other, "KILL"}, {id, "KILL"}} {
		if err := private.Client().ContainerKill(t.Context(), s.id, s.signal); err != nil {
			t.Fatal(err)
		}
	}
	signals := func() []int {
		c, err := e.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		kills, err := e.KillEvents(t.Context(), id, c.StartedAt)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the engine told after %v", time.Since(began))
		var all []int
		for _, ev := range kills {
			if ev.ID != id || ev.Action != runtime.ActionKill || ev.Time.Before(c.StartedAt) {
				t.Errorf("got %+v", ev)
			}
			all = append(all, ev.Signal)
		}
		return all
	}
	eventually(t, "it has ended", func() bool {
		c, err := e.Inspect(t.Context(), id)
		return err == nil && !c.State.Alive()
	})
	if got := signals(); !slices.Equal(got, []int{1, 9}) {
		t.Errorf("got %v", got)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := signals(); len(got) > 0 {
		t.Errorf("the next run: got %v", got)
	}
}

// An engine that shuts down takes no new connection before it sends its first signal,
// and serves the old ones on.
func TestAccept(t *testing.T) {
	private := dockertest.Start(t, "--live-restore=false")
	e := connect(t, private)
	d := watch(t, private, nil)
	private.Run(t, dockertest.RunOptions{Name: "slow", Cmd: []string{"sh", "-c", "trap : TERM; while :; do sleep 0.1; done"}})
	n := d.reads(t, 0, "observed slow running")
	if err := e.Accept(t.Context()); err != nil {
		t.Errorf("an engine that is well: %v", err)
	}
	var ending sync.WaitGroup
	ending.Go(func() { private.Stop(t) })
	d.reads(t, n, "killed slow 15")
	if err := e.Accept(t.Context()); err == nil {
		t.Error("an engine that shuts down takes a connection")
	}
	d.never(t, "lost")
	ending.Wait()
	private.Up(t)
	if err := e.Accept(t.Context()); err != nil {
		t.Errorf("an engine that is back: %v", err)
	}
}
