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

// A Watcher that was connected, and one that connects later, both see that the engine
// restarted, however it ended.
func TestReplayOverEngineRestarts(t *testing.T) {
	for _, flag := range []string{"--live-restore=true", "--live-restore=false"} {
		t.Run(flag, func(t *testing.T) {
			private := dockertest.Start(t, flag)
			e := connect(t, private)
			d := watch(t, private, nil)
			n := d.waitFor(t, 0, "connected unknown", "synced start")
			id := private.Run(t, dockertest.RunOptions{Name: "web"})
			n = d.waitFor(t, n, "observed web running")
			waitUntilServing(t, e, id)
			for _, down := range []func(testing.TB){private.Stop, private.Kill} {
				down(t)
				n = d.waitFor(t, n, "lost")
				seen := d.seenUntil()
				began := time.Now()
				private.Up(t)
				n = d.waitFor(t, n, "connected restart", "synced reconnect")
				t.Logf("in sync again %v after the start of the engine", time.Since(began))
				// The next end must come after an event since this start.
				if err := e.Start(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if _, code, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil || code != 0 {
					t.Fatal(code, err)
				}
				u := connected(t, e, seen)
				if u.Replay != runtime.ReplayRestart || u.EngineKills != (flag == "--live-restore=false") {
					t.Errorf("a Watcher that connects later gets %v, engine kills %v", u.Replay, u.EngineKills)
				}
			}
		})
	}
}

// replayOf returns what a Watcher with that Since gets as Replay.
func replayOf(t *testing.T, e *docker.Engine, since time.Time) runtime.Replay {
	t.Helper()
	return connected(t, e, since).Replay
}

// connected returns the Connected update of a Watcher with that Since.
func connected(t *testing.T, e *docker.Engine, since time.Time) runtime.Update {
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
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{Name: "web", Cmd: []string{"sleep", "1000"}})
	d.waitFor(t, n, "observed web running")
	first := d.seenUntil()
	if got := replayOf(t, e, first); got != runtime.ReplayComplete {
		t.Errorf("without events: got %v", got)
	}
	// Exec probes fill the engine's history, but Watchers receive their events.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 12 {
				if _, code, _, err := e.Exec(t.Context(), id, []string{"true"}, time.Minute, 0, nil); err != nil || code != 0 {
					t.Error(code, err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "exec events are received", func() bool { return replayOf(t, e, d.seenUntil()) == runtime.ReplayComplete })
	if got := replayOf(t, e, first); got != runtime.ReplayUnknown {
		t.Errorf("after 288 events of execs: got %v", got)
	}
	last := d.seenUntil()
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

func TestEventHistoryOfAFrozenEngine(t *testing.T) {
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

// KillEvents returns the signals to one container since the start of its present run.
func TestKillEvents(t *testing.T) {
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
		kills, err := e.KillEvents(t.Context(), c.Run())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the engine answered after %v", time.Since(began))
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
	first, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := signals(); len(got) > 0 {
		t.Errorf("the next run: got %v", got)
	}
	if kills, err := e.KillEvents(t.Context(), first.Run()); err != nil || len(kills) != 2 {
		t.Errorf("the run before: got %v, %v", kills, err)
	}
}

// An engine that shuts down refuses new connections before it sends its first signal, and
// still answers on the old ones.
func TestAccept(t *testing.T) {
	private := dockertest.Start(t, "--live-restore=false")
	e := connect(t, private)
	d := watch(t, private, nil)
	private.Run(t, dockertest.RunOptions{Name: "slow", Cmd: []string{"sh", "-c", "trap : TERM; while :; do sleep 0.1; done"}})
	n := d.waitFor(t, 0, "observed slow running")
	if err := e.Accept(t.Context()); err != nil {
		t.Errorf("a running engine: %v", err)
	}
	var ending sync.WaitGroup
	ending.Go(func() { private.Stop(t) })
	d.waitFor(t, n, "killed slow 15")
	if err := e.Accept(t.Context()); err == nil {
		t.Error("an engine that shuts down takes a connection")
	}
	d.mustNotContain(t, "lost")
	ending.Wait()
	private.Up(t)
	if err := e.Accept(t.Context()); err != nil {
		t.Errorf("an engine that is back: %v", err)
	}
}
