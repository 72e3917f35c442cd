package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The event of an end may be lost. healthd inspects a container before it takes it for
// one that has survived its signal.
func TestEndAfterASignalIsLookedUp(t *testing.T) {
	for _, ended := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, webSpec())
			defer h.close(t)
			h.sendSynced()
			h.engine.run("c1")
			synctest.Wait()
			h.event(runtime.Killed, "c1", 15)
			if ended {
				h.engine.endRun("c1", 143)
			}
			time.Sleep(time.Hour)
			s := h.view(t, "c1").State
			if s.Engine.State.Alive() == ended || s.OperatorStopped() != ended || s.Ending.Survived == ended || s.Conditions.Ready.Status == ended {
				t.Errorf("ended %v: it is %s, stopped by an operator %v, survived %v, ready %v", ended, s.Engine.State, s.OperatorStopped(), s.Ending.Survived, s.Conditions.Ready.Status)
			}
			if calls := h.engine.calls(); len(calls) > 0 {
				t.Errorf("ended %v: calls %v", ended, calls)
			}
		})
	}
}

// A container ended and healthd missed the event. healthd neither stops nor starts it
// before an inspection tells who ended it.
func TestStopOfWhatHadEnded(t *testing.T) {
	for _, wished := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, webSpec())
			defer h.close(t)
			h.sendSynced()
			h.engine.run("c1")
			synctest.Wait()
			h.engine.endRun("c1", 143)
			at := time.Now()
			h.probes.setResult("c1:1", refused)
			time.Sleep(time.Minute)
			if calls := h.engine.calls(); len(calls) > 0 || h.view(t, "c1").State.Action.Stopping == core.NoCause {
				t.Fatalf("calls %v", calls)
			}
			if wished {
				h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: at})
			}
			h.probes.setResult("c1:1", success)
			h.engine.deliver(h.engine.observation("c1"))
			time.Sleep(time.Minute)
			if s := h.view(t, "c1").State; s.OperatorStopped() != wished || s.Engine.State.Alive() == wished {
				t.Errorf("wished %v: it is %s, stopped by an operator %v", wished, s.Engine.State, s.OperatorStopped())
			}
		})
	}
}

// hungStore is a Store that never finishes a write.
type hungStore struct{ noStore }

func (hungStore) Remember(core.Memory) <-chan struct{} { return make(chan struct{}) }

// A stop that waits for the Store has sent no signal yet.
func TestSignalBeforeOurStopIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarnessWith(t, plainSpec(core.Always), func(c *Config) { c.Store = hungStore{} })
		defer h.close(t)
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if calls := h.engine.calls(); len(calls) > 0 {
			t.Fatalf("calls %v", calls)
		}
		h.event(runtime.Killed, "c1", 15)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// A signal that is delivered twice counts once.
func TestSignalToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, plainSpec(core.Always))
		defer h.close(t)
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		survived := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(survived)
		time.Sleep(time.Hour)
		h.engine.deliver(survived)
		h.engine.exit("c1", 1)
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; !s.Engine.State.Alive() {
			t.Fatalf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
		stop := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(stop)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		h.engine.deliver(stop)
		if s := h.view(t, "c1").State; !s.OperatorStopped() || s.Ending.MaybeEngine {
			t.Errorf("stopped by an operator: %v, doubtful: %v", s.OperatorStopped(), s.Ending.MaybeEngine)
		}
	})
}

// Two signals count twice when the second one reaches a run that healthd has not seen.
func TestSignalToARunNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, plainSpec(core.Always))
		defer h.close(t)
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		h.event(runtime.Killed, "c1", 15)
		h.engine.endRun("c1", 143)
		time.Sleep(time.Second)
		h.engine.beginRun("c1")
		time.Sleep(time.Second)
		h.event(runtime.Killed, "c1", 15)
		h.engine.endRun("c1", 143)
		h.engine.deliver(h.engine.observation("c1"))
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// A clock that was set back does not make a new signal an old one.
func TestSignalAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, plainSpec(core.Always))
		defer h.close(t)
		h.sendSynced()
		h.engine.started = time.Now().Add(time.Hour) // by the clock before it was set back
		h.engine.run("c1")
		synctest.Wait()
		h.event(runtime.Killed, "c1", 15)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// healthd misses the first signal of its own stop and gets only the KILL.
func TestOwnKillWithoutItsFirstSignal(t *testing.T) {
	for _, told := range []string{"before the end is seen", "afterwards", "never, as it was somebody's"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, plainSpec(core.Always))
			defer h.close(t)
			h.sendSynced()
			h.engine.run("c1")
			synctest.Wait()
			made, deliver := make(chan time.Time, 1), h.engine.deliver
			h.engine.onStop = func() {
				at := time.Now()
				time.Sleep(30 * time.Second)
				deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 9, Time: time.Now()})
				h.engine.endRun("c1", 137)
				made <- at
			}
			if err := h.Restart(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			first := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: <-made}
			if told == "before the end is seen" {
				deliver(first)
			}
			deliver(h.engine.observation("c1"))
			synctest.Wait()
			if told == "afterwards" {
				deliver(first)
			}
			time.Sleep(time.Minute)
			if s := h.view(t, "c1").State; s.Engine.State.Alive() != (told[0] != 'n') || s.OperatorStopped() != (told[0] == 'n') {
				t.Errorf("told %s: it is %s, stopped by an operator: %v", told, s.Engine.State, s.OperatorStopped())
			}
		})
	}
}

// The event of an end tells about that run alone. A later run that started and ended
// unseen is left alone.
func TestDiedTellsOfItsOwnRun(t *testing.T) {
	for name, again := range map[string]bool{"the same run": false, "another run": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeHost(t, plainSpec(core.Always))
				defer e.shutDown()
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				e.engine.run("c1")
				synctest.Wait()
				e.sleep(time.Minute)
				e.engine.endRun("c1", 1)
				e.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: time.Now()})
				synctest.Wait()
				e.kill()
				if time.Sleep(time.Second); again {
					e.engine.beginRun("c1")
					time.Sleep(time.Minute)
					e.engine.endRun("c1", 143)
				}
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				e.sleep(time.Hour)
				if e.running("c1") == again {
					t.Errorf("it runs: %v", e.running("c1"))
				}
			})
		})
	}
}
