package docker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

// A Watcher that was connected, and one that connects later, both see that the engine
// restarted, however it ended.
func TestReplayOverEngineRestarts(t *testing.T) {
	onlyInRingTwo(t)
	dockertest.PodmanCannot(t, "its containers do not depend on its service, and so no restart of that is told")
	for _, flag := range []string{"--live-restore=true", "--live-restore=false"} {
		t.Run(flag, func(t *testing.T) {
			private := dockertest.Start(t, flag)
			e := connect(t, private)
			l := watch(t, private)
			n := l.WaitFor(t, 0, "connected unknown", "synced start")
			id := private.Run(t, dockertest.RunOptions{Name: "web"})
			n = l.WaitFor(t, n, "observed web running")
			waitUntilServing(t, e, id)
			for _, down := range []func(testing.TB){private.Stop, private.Kill} {
				down(t)
				n = l.WaitFor(t, n, "lost")
				seen := l.SeenUntil()
				began := time.Now()
				private.Up(t)
				n = l.WaitFor(t, n, "connected restart", "synced reconnect")
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
	dockertest.PodmanCannot(t, "its history has no limit")
	e, private := engine(t)
	l := watch(t, private)
	n := l.WaitFor(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{Name: "web", Cmd: []string{"sleep", "1000"}})
	l.WaitFor(t, n, "observed web running")
	first := l.SeenUntil()
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
	scenarios.Eventually(t, "exec events are received", func() bool { return replayOf(t, e, l.SeenUntil()) == runtime.ReplayComplete })
	if got := replayOf(t, e, first); got != runtime.ReplayUnknown {
		t.Errorf("after 288 events of execs: got %v", got)
	}
	last := l.SeenUntil()
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
