package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	sent := map[string]*Container{}
	synced := false
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	w := &Watcher{Name: "fake", Source: engine, Relist: 20 * time.Second, Wanted: func(name string, _ map[string]string) bool { return name != "e" }}
	go func() {
		done <- w.Run(ctx, func(_ context.Context, u Update) error {
			switch u.Kind {
			case Observed:
				sent[u.ID] = u.Container
			case Removed:
				if sent[u.ID] == nil {
					t.Errorf("removed %s, which was never observed", u.ID)
				}
				delete(sent, u.ID)
			case Lost:
				synced = false
			case Synced:
				synced = true
			}
			return nil
		})
	}()
	for _, b := range script {
		step(engine, b)
	}
	engine.silently(func() { engine.down = nil; clear(engine.hung); clear(engine.sick); engine.mute = false })
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	cancel()
	<-done
	if !synced {
		t.Error("not in sync in the end")
	}
	truth := maps.Clone(engine.containers)
	maps.DeleteFunc(truth, func(_ string, c *Container) bool { return c.Name == "e" })
	if !reflect.DeepEqual(sent, truth) {
		t.Errorf("sent %v, but there is %v", describeAll(sent), describeAll(truth))
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
	default:
		time.Sleep(time.Duration(1+int(b)) * 40 * time.Millisecond)
	}
}

func describeAll(all map[string]*Container) map[string]string {
	out := map[string]string{}
	for id, c := range all {
		out[id] = fmt.Sprintf("%s %s %v", c.Name, c.State, c.StartedAt)
	}
	return out
}
