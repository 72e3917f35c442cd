package supervisor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// These are minimal tales of what chaos has found.

func (h *house) tell(kind runtime.Kind, id string, signal int) {
	h.engine.deliver(runtime.Update{Kind: kind, Runtime: "docker", ID: id, Signal: signal, ExitCode: 128 + signal, Time: time.Now(), Err: errors.New("EOF")})
}

func (h *house) ends(id string) {
	h.engine.end(id, 143)
	h.tell(runtime.Died, id, 15)
	h.engine.deliver(h.engine.seen(id))
}

// An engine that shuts down waits for the slowest, with all others stopped long before,
// and is back much later.
func TestEngineEndsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, plain(Always))
		defer h.close(t)
		h.synced()
		for _, id := range []string{"c1", "c2"} {
			h.engine.run(id)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"c1", "c2"} {
			h.tell(runtime.Killed, id, 15)
		}
		h.ends("c1")
		time.Sleep(10 * time.Second)
		h.tell(runtime.Killed, "c2", 9)
		h.ends("c2")
		time.Sleep(time.Second)
		h.tell(runtime.Lost, "", 0)
		time.Sleep(time.Minute)
		h.engine.deliver(runtime.Update{Kind: runtime.Began, Runtime: "docker", Replay: runtime.ReplayRestart})
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
		time.Sleep(time.Second)
		for _, id := range []string{"c1", "c2"} {
			if s := h.view(t, id).State; s.Engine != runtime.Running {
				t.Errorf("%s is %s, stopped by an operator: %v", id, s.Engine, s.OperatorStopped)
			}
		}
	})
}

// A signal of the engine's new life is somebody's wish, and no part of its end, unless
// nothing was left out: an engine that was killed ends what it finds when it is back.
func TestSignalAfterEngineStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		hit  []string
		wish bool
	}{
		{"one of two", []string{"c1"}, true},
		{"all", []string{"c1", "c2"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, plain(Always))
				defer h.close(t)
				h.synced()
				h.engine.run("c1")
				h.engine.run("c2")
				time.Sleep(time.Minute)
				h.tell(runtime.Lost, "", 0)
				h.engine.deliver(runtime.Update{Kind: runtime.Began, Runtime: "docker", Replay: runtime.ReplayRestart})
				for _, id := range tt.hit {
					h.tell(runtime.Killed, id, 15)
					h.ends(id)
				}
				h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
				time.Sleep(time.Minute)
				if s := h.view(t, "c1").State; s.Engine.Alive() == tt.wish || s.OperatorStopped != tt.wish {
					t.Errorf("it is %s, stopped by an operator: %v", s.Engine, s.OperatorStopped)
				}
			})
		})
	}
}

// What has ended does not survive a signal, however long a sick engine keeps the end
// from being seen.
func TestEndSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		time.Sleep(time.Minute)
		h.tell(runtime.Killed, "c1", 9)
		h.tell(runtime.Died, "c1", 9)
		h.engine.end("c1", 137)
		h.probes.say("c1:1", refused)
		time.Sleep(10 * time.Minute)
		h.engine.deliver(h.engine.seen("c1"))
		time.Sleep(time.Minute)
		if calls := h.engine.madeCalls(); len(calls) > 0 || !h.view(t, "c1").State.OperatorStopped {
			t.Errorf("calls %v", calls)
		}
	})
}

// A start that an ending daemon has tried in vain is the next one's.
func TestStartLeftOver(t *testing.T) {
	w := newWorld(t)
	w.spec.RestartPolicy = Always
	for _, line := range [][]string{{"runs"}, {"start-fails", "yes"}, {"exits", "1"}, {"shutdown"}} {
		if err := w.happen(line[0], line[1:]); err != nil {
			t.Fatal(err)
		}
		w.goTo(w.now.Add(time.Second))
	}
	m := Memory{Facts: remembered(&w.c, "web", &w.state)}
	if s := m.recalled(w.spec, w.now); !w.state.settled() || s.Restart != ByExit || s.LeftOver {
		t.Errorf("settled %v, recalled %+v", w.state.settled(), s)
	}
}

// What follows from a start of the engine is kept before its events count as seen.
func TestSeenAfterEngineStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		h := openWith(t, plain(Always), func(c *Config) { c.Store = store })
		defer h.close(t)
		h.engine.deliver(runtime.Update{Kind: runtime.Began, Runtime: "docker", Replay: runtime.ReplayRestart, Seen: time.Unix(1, 0)})
		h.engine.deliver(runtime.Update{Kind: runtime.Heard, Runtime: "docker", Seen: time.Unix(2, 0)})
		if h.round(t); len(store.seen) > 0 {
			t.Errorf("noted %v before everything was looked at", store.seen)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistStart, Seen: time.Unix(3, 0)})
		if h.round(t); len(store.seen) != 1 {
			t.Errorf("noted %v", store.seen)
		}
	})
}

// round waits until all messages went round.
func (h *house) round(t *testing.T) {
	if err := h.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}
