package runtime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzWatch runs a Watcher on an engine with arbitrary changes: with and without events,
// events without a change, lost connections and hangs. In the end, the updates must match
// the engine's state.
func FuzzWatch(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("start and stop some of them"))
	f.Add([]byte{0, 1, 40, 238, 0, 40, 55, 80, 238, 0, 0, 237, 55, 40, 0, 239, 65, 0, 75, 238, 0, 65, 0})
	f.Add([]byte{0, 1, 2, 3, 40, 41, 42, 43, 80, 81, 82, 120, 160, 200, 240, 7, 17, 27, 37, 47, 57, 67, 77, 87, 97})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			script = script[:200]
		}
		synctest.Test(t, func(t *testing.T) { playAndCompare(t, script) })
	})
}

func playAndCompare(t *testing.T, script []byte) {
	engine := newFakeEngine()
	engine.stream = &fakeStream{broken: make(chan error, 1)}
	engine.historyMax = 8
	engine.shares = map[string]string{"b": "e", "c": "a"}
	checker := &updateChecker{t: t, engine: engine, sent: map[string]*Container{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	w := &Watcher{Name: "fake", Source: engine, Relist: 20 * time.Second, Wanted: func(c Traits) bool { return c.Name != "e" }}
	go func() { done <- w.Run(ctx, checker.receive) }()
	time.Sleep(time.Nanosecond) // no event has the time of the first connection, which the checker could not tell from it
	for _, b := range script {
		act(engine, b)
	}
	engine.silently(func() {
		engine.down = nil
		clear(engine.inspectHangs)
		clear(engine.inspectErr)
		engine.pingHangs = false
	})
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	cancel()
	<-done
	if !checker.synced {
		t.Error("not in sync in the end")
	}
	want := map[string]*Container{}
	for id := range engine.containers {
		if id != "e" {
			want[id] = engine.describe(id)
		}
	}
	if !reflect.DeepEqual(checker.sent, want) {
		t.Errorf("sent %v, but there is %v", describeAll(checker.sent), describeAll(want))
	}
}

// keeper keeps the containers that a Watcher sent, and checks its other updates.
type updateChecker struct {
	t         *testing.T
	engine    *fakeEngine
	sent      map[string]*Container
	connected bool // connected
	synced    bool
	seen      int // number of the newest event seen
}

func (k *updateChecker) receive(_ context.Context, u Update) error {
	if u.Kind != Connected && u.Kind != Lost && !k.connected {
		k.t.Errorf("sent %s before the connection began", formatUpdate(u))
	}
	if seen := k.engine.number(u.SeenUntil); seen < k.seen {
		k.t.Errorf("%s: seen event %d after %d", formatUpdate(u), seen, k.seen)
	} else {
		k.seen = seen
	}
	switch u.Kind {
	case Connected:
		k.connected = true
		k.checkReplay(u.Replay)
	case Observed:
		k.sent[u.ID] = u.Container
	case Removed:
		if k.sent[u.ID] == nil {
			k.t.Errorf("removed %s, which was never observed", u.ID)
		}
		delete(k.sent, u.ID)
	case Lost:
		k.connected, k.synced = false, false
	case Synced:
		k.synced = true
	}
	return nil
}

func (k *updateChecker) checkReplay(claim Replay) {
	k.engine.mu.Lock()
	defer k.engine.mu.Unlock()
	asked := k.engine.lastSubscription
	// Before the first event there is only a time to go by.
	byTime := k.engine.numberLocked(asked.since) == 0
	if claim == ReplayComplete && !asked.complete && !(byTime && k.engine.clockSet) {
		k.t.Errorf("complete since %v, but the engine has forgotten some", asked.since)
	}
	same := func(e emittedEvent) bool { return e.Time.Equal(asked.since) && e.restarts == k.engine.restarts }
	if claim == ReplayRestart && slices.ContainsFunc(k.engine.emitted, same) {
		k.t.Errorf("restarted since %v, but it was not", asked.since)
	}
}

// step does one thing to one of five containers.
func act(f *fakeEngine, b byte) {
	id := string(rune('a' + b%5))
	f.mu.Lock()
	c := f.containers[id]
	f.mu.Unlock()
	alive := c != nil && c.State.Alive()
	switch what := b / 5 % 16; {
	case what < 3 && !alive:
		f.start(id)
	case what < 3:
		f.kill(id, 15)
	case what == 3 && alive:
		f.silently(func() { f.end(id, 1) })
	case what == 4:
		f.silently(func() { f.run(id) })
	case what == 5 && c != nil:
		f.silently(func() { f.drop(id) })
	case what == 6 && c != nil:
		f.remove(id)
	case what == 7:
		f.emit(id, []Action{ActionDie, ActionStart, ActionKill, ActionDestroy, ActionOOM}[b%5], 9)
	case what == 8:
		f.silently(func() { f.inspectHangs[id] = !f.inspectHangs[id] })
	case what == 9:
		f.silently(func() { f.inspectErr[id] = errors.New("sick") })
	case what == 10:
		f.silently(func() { delete(f.inspectErr, id); f.pingHangs = !f.pingHangs })
	case what == 11:
		f.silently(func() {
			select {
			case f.stream.broken <- errors.New("broken"):
			default:
			}
		})
	case what == 12:
		f.silently(func() {
			f.down = nil
			if b%2 == 0 {
				f.down = errors.New("down")
			}
		})
	case what == 13:
		f.silently(f.restart)
		f.silently(func() {
			select {
			case f.stream.broken <- errors.New("restarted"):
			default:
			}
		})
	case what == 14 && b%2 == 0:
		f.emit(id, ActionExec, 0)
	case what == 15 && b >= 160:
		f.silently(func() {
			f.clockSet = true
			f.clockOffset = []time.Duration{0, -50 * time.Millisecond, -3 * time.Second, -time.Hour, 1000 * time.Hour}[b%5]
		})
	default:
		time.Sleep(time.Duration(1+int(b)) * 40 * time.Millisecond)
	}
}

func describeAll(all map[string]*Container) map[string]string {
	out := map[string]string{}
	for id, c := range all {
		out[id] = fmt.Sprintf("%s %s %v, network of %q since %v, gone %v", c.Name, c.State, c.StartedAt, c.NetworkOwner, c.NetworkOwnerStartedAt, c.NetworkOwnerGone)
	}
	return out
}
