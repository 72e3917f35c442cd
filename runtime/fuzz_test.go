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

// FuzzWatch plays an arbitrary life to a Watcher: changes that are told, changes
// that are not, events of nothing, losses and hangs. Whatever happened, what was
// sent must in the end be what is.
func FuzzWatch(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("start and stop some of them"))
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
	engine.ring = 8
	engine.shares = map[string]string{"b": "e", "c": "a"}
	k := &keeper{t: t, engine: engine, sent: map[string]*Container{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	w := &Watcher{Name: "fake", Source: engine, Relist: 20 * time.Second, Wanted: func(name string, _ map[string]string) bool { return name != "e" }}
	go func() { done <- w.Run(ctx, k.take) }()
	for _, b := range script {
		step(engine, b)
	}
	engine.silently(func() { engine.down = nil; clear(engine.hung); clear(engine.sick); engine.mute = false })
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	cancel()
	<-done
	if !k.synced {
		t.Error("not in sync in the end")
	}
	truth := map[string]*Container{}
	for id := range engine.containers {
		if id != "e" {
			truth[id] = engine.describe(id)
		}
	}
	if !reflect.DeepEqual(k.sent, truth) {
		t.Errorf("sent %v, but there is %v", describeAll(k.sent), describeAll(truth))
	}
}

// keeper keeps what a Watcher sends and checks what it claims.
type keeper struct {
	t      *testing.T
	engine *fakeEngine
	sent   map[string]*Container
	met    bool // connected
	synced bool
	seen   time.Time
}

func (k *keeper) take(_ context.Context, u Update) error {
	if u.Kind != Connected && u.Kind != Lost && !k.met {
		k.t.Errorf("sent %s before the connection began", line(u))
	}
	if u.SeenUntil.Before(k.seen) {
		k.t.Errorf("%s: seen %v after %v", line(u), u.SeenUntil, k.seen)
	}
	k.seen = u.SeenUntil
	switch u.Kind {
	case Connected:
		k.met = true
		k.began(u.Replay)
	case Observed:
		k.sent[u.ID] = u.Container
	case Removed:
		if k.sent[u.ID] == nil {
			k.t.Errorf("removed %s, which was never observed", u.ID)
		}
		delete(k.sent, u.ID)
	case Lost:
		k.met, k.synced = false, false
	case Synced:
		k.synced = true
	}
	return nil
}

func (k *keeper) began(claim Replay) {
	k.engine.mu.Lock()
	defer k.engine.mu.Unlock()
	asked := k.engine.asked
	if claim == ReplayComplete && !asked.complete {
		k.t.Errorf("complete since %v, but the engine has forgotten some", asked.since)
	}
	same := func(e told) bool { return e.Time.Equal(asked.since) && e.boot == k.engine.boots }
	if claim == ReplayRestart && slices.ContainsFunc(k.engine.told, same) {
		k.t.Errorf("restarted since %v, but it was not", asked.since)
	}
}

// step does one thing to one of five containers.
func step(f *fakeEngine, b byte) {
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
		f.tell(id, []Action{ActionDie, ActionStart, ActionKill, ActionDestroy, ActionOOM}[b%5], 9)
	case what == 8:
		f.silently(func() { f.hung[id] = !f.hung[id] })
	case what == 9:
		f.silently(func() { f.sick[id] = errors.New("sick") })
	case what == 10:
		f.silently(func() { delete(f.sick, id); f.mute = !f.mute })
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
		f.silently(f.boot)
		f.silently(func() {
			select {
			case f.stream.broken <- errors.New("restarted"):
			default:
			}
		})
	case what == 14 && b%2 == 0:
		f.tell(id, ActionExec, 0)
	default:
		time.Sleep(time.Duration(1+int(b)) * 40 * time.Millisecond)
	}
}

func describeAll(all map[string]*Container) map[string]string {
	out := map[string]string{}
	for id, c := range all {
		out[id] = fmt.Sprintf("%s %s %v, network of %q since %v, gone %v", c.Name, c.State, c.StartedAt, c.NetworkOf, c.NetworkSince, c.NetworkGone)
	}
	return out
}
