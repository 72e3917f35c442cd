package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The event of an end may be lost. healthd inspects a container before it takes it for
// one that has survived its signal.
func TestInspectionAfterASignal(t *testing.T) {
	for _, ended := range []bool{true, false} {
		play(t, webSpec(), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			h.event(runtime.Killed, "c1", 15)
			if ended {
				h.engine.endRun("c1", 143)
			}
			time.Sleep(time.Hour)
			s := h.view("c1").State
			if s.Engine.State.Alive() == ended || s.OperatorStopped() != ended || s.Ending.Survived == ended || s.Conditions.Ready.Status == ended {
				h.t.Errorf("ended %v: it is %s, stopped by an operator %v, survived %v, ready %v", ended, s.Engine.State, s.OperatorStopped(), s.Ending.Survived, s.Conditions.Ready.Status)
			}
			if calls := h.engine.calls(); len(calls) > 0 {
				h.t.Errorf("ended %v: calls %v", ended, calls)
			}
		})
	}
}

// A container ended and healthd missed the event. healthd neither stops nor starts it
// before an inspection tells who ended it.
func TestStopOfAnEndedContainer(t *testing.T) {
	for _, signalled := range []bool{true, false} {
		play(t, webSpec(), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			h.engine.endRun("c1", 143)
			at := time.Now()
			h.probes.setResult("c1:1", refused)
			time.Sleep(time.Minute)
			if calls := h.engine.calls(); len(calls) > 0 || h.view("c1").State.Action.Stopping == core.NoCause {
				h.t.Fatalf("calls %v", calls)
			}
			if signalled {
				h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: at})
			}
			h.probes.setResult("c1:1", success)
			h.engine.deliver(h.engine.observation("c1"))
			time.Sleep(time.Minute)
			if s := h.view("c1").State; s.OperatorStopped() != signalled || s.Engine.State.Alive() == signalled {
				h.t.Errorf("signalled %v: it is %s, stopped by an operator %v", signalled, s.Engine.State, s.OperatorStopped())
			}
		})
	}
}

// The engine does not answer healthd's look before a stop. Meanwhile the run ends, and somebody
// starts the next one: a stop that left now would hit that.
func TestNoStopWithoutALook(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.setLookTakes(20 * time.Second)
		h.probes.setResult("c1:1", refused)
		time.Sleep(40 * time.Second) // the look is under way
		h.engine.endRun("c1", 1)
		h.engine.beginRun("c1")
		time.Sleep(time.Minute)
		h.engine.setLookTakes(0)
		h.probes.setResult("c1:1", success)
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); len(calls) > 0 {
			h.t.Errorf("calls %v", calls)
		}
		if s := h.view("c1").State; s.Action.Stopping != core.NoCause || !s.Engine.State.Alive() {
			h.t.Errorf("stopping %v, it is %s", s.Action.Stopping, s.Engine.State)
		}
		if !slices.ContainsFunc(h.journal.all(), func(e core.Event) bool {
			return e.Reason == core.EventKilling && strings.Contains(e.Message, "the stop was not sent")
		}) {
			h.t.Errorf("events %v", h.journal.all())
		}
	})
}

// A look that fails at once holds up no stop.
func TestStopAfterALookThatFailed(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.setLookTakes(10 * time.Millisecond)
		h.probes.setResult("c1:1", refused)
		time.Sleep(40 * time.Second)
		h.engine.setLookTakes(0)
		if calls := h.engine.calls(); !slices.Equal(calls, []string{"stop c1 30s"}) {
			h.t.Errorf("calls %v", calls)
		}
	})
}

// A verdict is on one run. healthd does not stop the next one for it, which it sees only
// when it looks before the stop.
func TestStopOfAnEarlierRunIsNotSent(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.probes.setResult("c1:1", refused)
		h.engine.run("c1")
		time.Sleep(15 * time.Second)
		h.engine.endRun("c1", 1)
		h.engine.beginRun("c1")
		time.Sleep(20 * time.Second) // the third failure came after 20 s, and the drain is over
		s := h.view("c1").State
		if calls := h.engine.calls(); len(calls) > 0 || s.Run.ID.Started != h.engine.newestStart().UnixNano() || s.Action.Stopping != core.NoCause {
			h.t.Fatalf("calls %v, run %v, stopping %v", calls, s.Run.ID, s.Action.Stopping)
		}
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); !slices.Contains(calls, "stop c1 30s") {
			h.t.Errorf("calls %v after its own failures", calls)
		}
	})
}

// hungEngine answers no inspection while it hangs.
type hungEngine struct {
	*fakeEngine
	hangs atomic.Bool
}

func (e *hungEngine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	if e.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return e.fakeEngine.Inspect(ctx, id)
}

// healthd looks before it stops a container. When the engine hangs meanwhile, and there is a
// new run before it answers, healthd sends no stop: it would end that run.
func TestNoStopAfterALookThatHung(t *testing.T) {
	engine := &hungEngine{}
	engine.hangs.Store(true)
	playWith(t, webSpec(), func(c *Config) {
		engine.fakeEngine = c.Runtimes["docker"].(*fakeEngine)
		c.Runtimes["docker"] = engine
	}, func(h *harness) {
		h.sendSynced()
		h.probes.setResult("c1:1", refused)
		h.engine.run("c1")
		time.Sleep(30 * time.Second)
		if s := h.view("c1").State; len(h.engine.calls()) > 0 || s.Action.Call != core.StopCall {
			h.t.Fatalf("calls %v, under way %v", h.engine.calls(), s.Action.Call)
		}
		h.probes.setResult("c1:1", success)
		h.engine.endRun("c1", 1)
		h.engine.run("c1")
		synctest.Wait()
		engine.hangs.Store(false)
		time.Sleep(time.Minute)
		if s := h.view("c1").State; len(h.engine.calls()) > 0 || s.Action.Call != core.NoCall || !s.Engine.State.Alive() {
			h.t.Errorf("calls %v, under way %v", h.engine.calls(), s.Action.Call)
		}
	})
}

// hungStore is a Store that never finishes a write.
type hungStore struct{ noStore }

func (hungStore) Remember(*core.Memory) <-chan struct{} { return make(chan struct{}) }

// A stop that waits for the Store has sent no signal yet.
func TestSignalBeforeOwnStopIsSent(t *testing.T) {
	playWith(t, plainSpec(core.Always), func(c *Config) { c.Store = hungStore{} }, func(h *harness) {
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		h.must(h.Restart(h.t.Context(), "c1"))
		synctest.Wait()
		if calls := h.engine.calls(); len(calls) > 0 {
			h.t.Fatalf("calls %v", calls)
		}
		h.event(runtime.Killed, "c1", 15)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		if s := h.view("c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			h.t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// A signal that is delivered twice counts once.
func TestSignalDeliveredTwice(t *testing.T) {
	play(t, plainSpec(core.Always), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		survived := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(survived)
		time.Sleep(time.Hour)
		h.engine.deliver(survived)
		h.engine.exit("c1", 1)
		time.Sleep(time.Minute)
		if s := h.view("c1").State; !s.Engine.State.Alive() {
			h.t.Fatalf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
		stop := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(stop)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		h.engine.deliver(stop)
		if s := h.view("c1").State; !s.OperatorStopped() || s.Ending.MaybeEngine {
			h.t.Errorf("stopped by an operator: %v, doubtful: %v", s.OperatorStopped(), s.Ending.MaybeEngine)
		}
	})
}

// Two signals count twice when the second one reaches a run that healthd has not seen.
func TestSignalToAnUnseenRun(t *testing.T) {
	play(t, plainSpec(core.Always), func(h *harness) {
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
		if s := h.view("c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			h.t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// A clock that was set back does not make a new signal an old one.
func TestSignalAfterTheClockWasSetBack(t *testing.T) {
	play(t, plainSpec(core.Always), func(h *harness) {
		h.engine.started = time.Now().Add(time.Hour) // by the clock before it was set back
		h.engine.run("c1")
		synctest.Wait()
		h.event(runtime.Killed, "c1", 15)
		h.exitOnTerm("c1")
		time.Sleep(time.Minute)
		if s := h.view("c1").State; s.Engine.State.Alive() || !s.OperatorStopped() {
			h.t.Errorf("it is %s, stopped by an operator: %v", s.Engine.State, s.OperatorStopped())
		}
	})
}

// healthd misses the first signal of its own stop and gets only the KILL, just when its grace period
// is over. A KILL well before or after that is an operator's.
func TestOwnKillWithoutItsFirstSignal(t *testing.T) {
	for _, tt := range []struct {
		delivered string
		killAfter time.Duration
		own       bool
	}{
		{"before the end is seen", 30 * time.Second, true}, {"afterwards", 30 * time.Second, true}, {"never", 30 * time.Second, true},
		{"never", 20 * time.Second, false}, {"never", time.Minute, false},
	} {
		play(t, plainSpec(core.Always), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			made, deliver := make(chan time.Time, 1), h.engine.deliver
			h.engine.onStop = func() {
				at := time.Now()
				time.Sleep(tt.killAfter)
				deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 9, Time: time.Now()})
				h.engine.endRun("c1", 137)
				made <- at
			}
			h.must(h.Restart(h.t.Context(), "c1"))
			first := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: <-made}
			if tt.delivered == "before the end is seen" {
				deliver(first)
			}
			deliver(h.engine.observation("c1"))
			synctest.Wait()
			if tt.delivered == "afterwards" {
				deliver(first)
			}
			time.Sleep(time.Minute)
			if s := h.view("c1").State; s.Engine.State.Alive() != tt.own || s.OperatorStopped() == tt.own {
				h.t.Errorf("%+v: it is %s, stopped by an operator: %v", tt, s.Engine.State, s.OperatorStopped())
			}
		})
	}
}

// The event of an end tells about that run alone. A later run that started and ended
// unseen is left alone.
func TestDiedConcernsItsOwnRun(t *testing.T) {
	for name, again := range map[string]bool{"the same run": false, "another run": true} {
		t.Run(name, func(t *testing.T) {
			playHost(t, plainSpec(core.Always), func(h *fakeHost) {
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.engine.run("c1")
				synctest.Wait()
				h.sleep(time.Minute)
				h.engine.endRun("c1", 1)
				h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: time.Now()})
				synctest.Wait()
				h.kill()
				if time.Sleep(time.Second); again {
					h.engine.beginRun("c1")
					time.Sleep(time.Minute)
					h.engine.endRun("c1", 143)
				}
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.sleep(time.Hour)
				if h.running("c1") == again {
					h.t.Errorf("it runs: %v", h.running("c1"))
				}
			})
		})
	}
}

// The disk hangs between the decision to start a container and the call. Meanwhile an operator
// has stopped the container, or another run of it: healthd does not start it.
func TestStartAfterASlowDisk(t *testing.T) {
	for what, operator := range map[string]func(h *harness){
		"news of a kill": func(h *harness) { h.event(runtime.Killed, "c1", 9) },
		"another run": func(h *harness) {
			h.engine.beginRun("c1")
			h.event(runtime.Killed, "c1", 9)
			h.engine.endRun("c1", 137)
		},
	} {
		t.Run(what, func(t *testing.T) {
			playWith(t, plainSpec(core.Always), func(c *Config) { c.Store = hungStore{} }, func(h *harness) {
				h.sendSynced()
				h.engine.run("c1")
				time.Sleep(time.Minute)
				h.engine.exit("c1", 137)
				time.Sleep(time.Second)
				operator(h)
				time.Sleep(time.Minute)
				h.engine.deliver(h.engine.observation("c1"))
				if s := h.view("c1").State; s.Engine.State.Alive() || len(h.engine.calls()) > 0 {
					h.t.Errorf("it is %s, calls %v", s.Engine.State, h.engine.calls())
				}
			})
		})
	}
}

// An operator's signal while healthd itself stops the container: its event is lost, or later
// than the end of healthd's call. The engine's history tells it.
func TestSignalDuringOwnStop(t *testing.T) {
	for _, lost := range []int{0, 9, 15} {
		play(t, webSpec(), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			h.engine.stopTakes = time.Second
			h.engine.onStop = func() {
				h.probes.setResult("c1:1", success)
				own := runtime.Event{ID: "c1", Action: runtime.ActionKill, Time: time.Now(), Signal: 15}
				h.engine.mu.Lock()
				h.engine.lostKills = []runtime.Event{own}
				if lost != 0 {
					h.engine.lostKills = append(h.engine.lostKills, runtime.Event{ID: "c1", Action: runtime.ActionKill, Time: own.Time.Add(time.Millisecond), Signal: lost})
				}
				h.engine.mu.Unlock()
			}
			h.probes.setResult("c1:1", refused)
			time.Sleep(time.Minute)
			if s := h.view("c1").State; len(h.engine.calls()) == 0 || s.OperatorStopped() != (lost != 0) || s.Engine.State.Alive() != (lost == 0) {
				h.t.Errorf("signal %d was lost: it is %s, stopped by an operator %v; calls %v", lost, s.Engine.State, s.OperatorStopped(), h.engine.calls())
			}
		})
	}
}

// A container survives healthd's stop, and has ended when healthd calls again. The news of that is lost: who ended it is
// in the engine's history.
func TestEndBetweenTwoStopCalls(t *testing.T) {
	for _, byOperator := range []bool{false, true} {
		play(t, webSpec(), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			h.engine.survives = 1
			h.engine.onStop = func() {
				h.probes.setResult("c1:1", success)
				time.AfterFunc(5*time.Second, func() {
					h.engine.endRun("c1", 137)
					h.engine.mu.Lock()
					defer h.engine.mu.Unlock()
					if byOperator {
						h.engine.lostKills = []runtime.Event{{ID: "c1", Action: runtime.ActionKill, Time: time.Now(), Signal: 9}}
					}
				})
			}
			h.probes.setResult("c1:1", refused)
			time.Sleep(2 * time.Minute)
			if s := h.view("c1").State; s.OperatorStopped() != byOperator || s.Engine.State.Alive() == byOperator {
				h.t.Errorf("an operator killed it %v: it is %s, calls %v", byOperator, s.Engine.State, h.engine.calls())
			}
		})
	}
}

// The engine's clock is set back within healthd's grace period: its KILL seems to come too early
// for healthd's own, in the engine's history, too, which alone may tell healthd's stop signal.
func TestClockSetWithinOwnGrace(t *testing.T) {
	for _, lost := range []bool{false, true} {
		play(t, webSpec(), func(h *harness) {
			h.engine.run("c1")
			synctest.Wait()
			h.engine.stopTakes, h.engine.stopUntold = 30*time.Second, lost // webSpec's grace period
			h.engine.onStop = func() {
				h.probes.setResult("c1:1", success)
				h.engine.mu.Lock()
				defer h.engine.mu.Unlock()
				h.engine.lostKills = []runtime.Event{
					{ID: "c1", Action: runtime.ActionKill, Time: time.Now(), Signal: 15},
					{ID: "c1", Action: runtime.ActionKill, Time: time.Now().Add(10 * time.Second), Signal: 9},
				}
			}
			h.probes.setResult("c1:1", refused)
			time.Sleep(2 * time.Minute)
			if s := h.view("c1").State; len(h.engine.calls()) != 2 || s.OperatorStopped() || !s.Engine.State.Alive() {
				h.t.Errorf("its stop signal is lost %v: it is %s, stopped by an operator %v; calls %v", lost, s.Engine.State, s.OperatorStopped(), h.engine.calls())
			}
		})
	}
}

// A container survives many of healthd's stops. The engine's history then has more signals
// than healthd remembers, and all are its own.
func TestManyOwnStops(t *testing.T) {
	const stops = 5
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.survives = stops - 1
		h.engine.onStop = func() {
			h.engine.mu.Lock()
			defer h.engine.mu.Unlock()
			h.engine.lostKills = append(h.engine.lostKills, runtime.Event{ID: "c1", Action: runtime.ActionKill, Time: time.Now(), Signal: 15})
			if len(h.engine.lostKills) == stops {
				h.probes.setResult("c1:1", success)
			}
		}
		h.probes.setResult("c1:1", refused)
		time.Sleep(5 * time.Minute)
		if s := h.view("c1").State; len(h.engine.calls()) != stops+1 || s.OperatorStopped() || !s.Engine.State.Alive() {
			h.t.Errorf("it is %s, stopped by an operator %v; calls %v", s.Engine.State, s.OperatorStopped(), h.engine.calls())
		}
	})
}
