package supervisor

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// TestChaos found these cases.

// An engine that shuts down stops its containers, waits for the slowest, and is back
// much later.
func TestEngineShutsDownSlowly(t *testing.T) {
	play(t, plainSpec(core.Always), func(h *harness) {
		for _, id := range []string{"c1", "c2"} {
			h.engine.run(id)
		}
		time.Sleep(time.Minute)
		h.engine.refuseConnections(true)
		for _, id := range []string{"c1", "c2"} {
			h.event(runtime.Killed, id, 15)
		}
		h.exitOnTerm("c1")
		time.Sleep(10 * time.Second)
		h.event(runtime.Killed, "c2", 9)
		h.exitOnTerm("c2")
		time.Sleep(time.Second)
		h.event(runtime.Lost, "", 0)
		time.Sleep(time.Minute)
		h.engine.refuseConnections(false)
		h.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart})
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
		time.Sleep(time.Second)
		for _, id := range []string{"c1", "c2"} {
			if s := h.view(id).State; s.Engine.State != runtime.Running {
				h.t.Errorf("%s is %s, stopped by an operator: %v", id, s.Engine.State, s.OperatorStopped())
			}
		}
	})
}

// An engine without live-restore sends signals, when it starts, to the containers that
// it finds. Those are not an operator's; all other signals are.
func TestSignalAfterEngineStart(t *testing.T) {
	engineKills := func(h *harness) {
		h.event(runtime.Killed, "c1", 15)
		h.engine.endRun("c1", 143)
		h.event(runtime.Died, "c1", 0)
		h.event(runtime.Stopped, "c1", 0)
	}
	newRun := func(h *harness) runtime.RunHint { // of an event of a run that healthd has not observed
		return runtime.RunHint{Run: h.engine.observation("c1").Container.Run(), Newer: true, Started: time.Now()}
	}
	for _, tt := range []struct {
		name        string
		liveRestore bool
		events      func(*harness)
		runs        bool
	}{
		{"ended by its engine", false, engineKills, true},
		{"ended by its engine after its grace", false, func(h *harness) {
			h.event(runtime.Killed, "c1", 15)
			time.Sleep(10 * time.Second)
			h.event(runtime.Killed, "c1", 9)
			h.engine.endRun("c1", 137)
			h.event(runtime.Died, "c1", 0)
			h.event(runtime.Stopped, "c1", 0)
		}, true},
		{"the signal's event after that of the end", false, func(h *harness) {
			h.engine.endRun("c1", 137)
			h.event(runtime.Died, "c1", 0)
			h.event(runtime.Killed, "c1", 9)
		}, true},
		{"all events after the list", false, func(h *harness) {
			h.engine.endRun("c1", 137)
			h.engine.deliver(h.engine.observation("c1"))
			engineKills(h)
		}, true},
		{"live-restore", true, engineKills, false},
		{"ended by its engine, started and stopped by an operator", false, func(h *harness) {
			engineKills(h)
			h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now(), Of: newRun(h)})
			h.event(runtime.Died, "c1", 0)
			h.engine.beginRun("c1")
			h.engine.endRun("c1", 143)
		}, false},
		{"ended by its engine, started by an operator, whose event is lost, and stopped", false, func(h *harness) {
			engineKills(h)
			h.engine.deliver(h.engine.observation("c1"))
			time.Sleep(15 * time.Second)
			h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now(), Of: newRun(h)})
			h.engine.beginRun("c1")
			h.engine.endRun("c1", 143)
			h.event(runtime.Died, "c1", 0)
		}, false},
		{"a run of the new life", false, func(h *harness) {
			time.Sleep(time.Second)
			h.engine.run("c1")
			engineKills(h)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, plainSpec(core.Always), func(h *harness) {
				h.engine.run("c1")
				time.Sleep(time.Minute)
				h.event(runtime.Lost, "", 0)
				began := runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart}
				began.EngineKills = !tt.liveRestore
				h.engine.deliver(began)
				h.engine.lifeBegan = time.Now()
				tt.events(h)
				h.engine.deliver(h.engine.observation("c1"))
				h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
				time.Sleep(time.Minute)
				if s := h.view("c1").State; s.Engine.State.Alive() != tt.runs || s.OperatorStopped() == tt.runs {
					h.t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
				}
			})
		})
	}
}

// A container that ends after the engine has started did not end with the engine.
func TestEndAfterEngineStart(t *testing.T) {
	play(t, plainSpec(core.OnFailure), func(h *harness) {
		h.engine.run("c1")
		time.Sleep(time.Minute)
		h.event(runtime.Lost, "", 0)
		h.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart})
		h.engine.exit("c1", 0)
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
		time.Sleep(time.Minute)
		if s := h.view("c1").State; s.Engine.State.Alive() || s.Run.Exit.Reason != core.ReasonCompleted {
			h.t.Errorf("it is %s: %+v", s.Engine.State, s.Run.Exit)
		}
	})
}

// A container that has ended has not survived its signal, however long the engine takes
// to show its end.
func TestEndInspectedLate(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		time.Sleep(time.Minute)
		h.event(runtime.Killed, "c1", 9)
		h.event(runtime.Died, "c1", 9)
		h.engine.endRun("c1", 137)
		h.probes.setResult("c1:1", refused)
		time.Sleep(10 * time.Minute)
		h.engine.deliver(h.engine.observation("c1"))
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); len(calls) > 0 || !h.view("c1").State.OperatorStopped() {
			h.t.Errorf("calls %v", calls)
		}
	})
}

// After an engine restart healthd stores its conclusions before it stores the events as
// seen.
func TestSetSeenAfterEngineStart(t *testing.T) {
	store := &slowStore{}
	playWith(t, plainSpec(core.Always), func(c *Config) { c.Store = store }, func(h *harness) {
		h.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart, SeenUntil: time.Unix(1, 0)})
		h.engine.deliver(runtime.Update{Kind: runtime.Bookmark, Runtime: "docker", SeenUntil: time.Unix(2, 0)})
		if h.drainInbox(); len(store.seen) > 0 {
			h.t.Errorf("noted %v before everything was looked at", store.seen)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistStart, SeenUntil: time.Unix(3, 0)})
		if h.drainInbox(); len(store.seen) != 1 {
			h.t.Errorf("noted %v", store.seen)
		}
	})
}
