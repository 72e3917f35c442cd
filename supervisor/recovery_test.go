package supervisor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

var replays = map[string]runtime.Replay{"unknown": runtime.ReplayUnknown, "complete": runtime.ReplayComplete, "engine restarted": runtime.ReplayRestart}

// plainSpec has no probes.
func plainSpec(policy core.RestartPolicy) *core.Spec {
	return &core.Spec{RestartPolicy: policy, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: time.Hour}}
}

// A container that an operator stopped stays stopped, whatever happens to the daemon and
// the engine, as long as an event or the Store tells of it.
func TestOperatorStopOutlivesDaemons(t *testing.T) {
	const (
		before = "before the daemon is killed"
		while  = "while the daemon is away"
		half   = "its signal before, its end while the daemon is away"
		slow   = "its signal long before, forgotten, its end while the daemon is away"
		long   = "its signal before, its end after a long time"
		after  = "after the daemon is back"
	)
	for _, when := range []string{before, while, half, slow, long, after} {
		for name, replay := range replays {
			if name != "complete" && (when == while || when == slow) {
				continue // nothing would tell
			}
			t.Run(when+", "+name, func(t *testing.T) {
				playHost(t, plainSpec(core.Always), func(h *fakeHost) {
					h.startDaemon(runtime.ReplayUnknown, 0)
					h.engine.run("c1")
					h.engine.run("c2") // so that this is no end of the engine
					synctest.Wait()
					switch when {
					case before:
						h.operatorStop("c1")
						h.sleep(10 * time.Second)
					case half, long, slow:
						h.signal("c1", 15)
						h.sleep(10 * time.Second)
					}
					if when == slow {
						h.sleep(5 * time.Minute)
					}
					h.kill()
					time.Sleep(time.Second)
					switch when {
					case while:
						h.operatorStop("c1")
					case long:
						time.Sleep(time.Hour)
						fallthrough
					case half, slow:
						h.engine.exit("c1", 143)
						h.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: "c1"})
					}
					if replay == runtime.ReplayRestart {
						h.killEngine()
					}
					h.startDaemon(replay, 0)
					if when == after {
						h.sleep(10 * time.Second)
						h.operatorStop("c1")
					}
					h.sleep(time.Hour)
					if s := h.view("c1").State; h.running("c1") || !s.OperatorStopped() || s.Action.Restart != core.NoCause {
						h.t.Errorf("started, or to be: %+v", s)
					}
					if when != after && h.engine.runs > 3 || !h.running("c2") {
						h.t.Errorf("%d runs; c2 runs: %v", h.engine.runs, h.running("c2"))
					}
				})
			})
		}
	}
}

// healthd leaves a stopped container alone when neither events nor the Store tell why it
// stopped, and records that.
func TestUnexplainedStopIsLeftAlone(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known before: %v", known), func(t *testing.T) {
			playHost(t, plainSpec(core.Always), func(h *fakeHost) {
				if known {
					h.startDaemon(runtime.ReplayUnknown, 0)
					h.engine.run("c1")
					synctest.Wait()
					h.kill()
				} else {
					h.engine.run("c1")
				}
				h.engine.exit("c1", 1)
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.sleep(time.Hour)
				if h.running("c1") || h.eventCount("c1", core.EventExited) != 1 {
					h.t.Errorf("runs: %v, events %v", h.running("c1"), h.journal.reasons("n-c1"))
				}
			})
		})
	}
}

// The engine shuts down or is killed, and comes back while the daemon runs on.
func TestEngineRestart(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   core.RestartPolicy
		engine   string // of the engine
		graceful bool
		before   func(*fakeHost) // happens to c1
		runs     bool            // whether c1 runs in the end
		within   time.Duration
	}{
		{"shutdown", core.Always, "", true, nil, true, 0},
		{"shutdown, OnFailure", core.OnFailure, "", true, nil, true, 0},
		{"shutdown, Never", core.Never, "", true, nil, false, 0},
		{"shutdown, engine restart policy", core.Always, "always", true, nil, true, 15 * time.Second},
		{"shutdown, stopped long before", core.Always, "", true, func(h *fakeHost) {
			h.operatorStop("c1")
			h.sleep(time.Minute)
		}, false, 0},
		{"shutdown, stopped a moment before", core.Always, "", true, func(h *fakeHost) {
			h.operatorStop("c1")
			h.sleep(6 * time.Second)
		}, false, 0},
		{"killed", core.Always, "", false, nil, true, 0},
		{"killed, Never", core.Never, "", false, nil, false, 0},
		{"killed, engine restart policy", core.Always, "always", false, nil, true, 15 * time.Second},
		{"killed, stopped long before", core.Always, "", false, func(h *fakeHost) {
			h.operatorStop("c1")
			h.sleep(time.Minute)
		}, false, 0},
		{"killed a moment after a stop", core.Always, "", false, func(h *fakeHost) { h.operatorStop("c1") }, false, 0},
		{"killed after a signal to one", core.Always, "", false, func(h *fakeHost) { h.signal("c1", 15) }, false, 0},
		{"killed in a back-off", core.Always, "", false, func(h *fakeHost) {
			h.engine.exit("c1", 1)
			h.sleep(time.Millisecond)
			h.engine.exit("c1", 1) // back-off: one second
		}, true, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playHost(t, plainSpec(tt.policy), func(h *fakeHost) {
				h.engine.policy = tt.engine
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.engine.run("c1")
				h.engine.run("c2")
				synctest.Wait()
				if tt.before != nil {
					tt.before(h)
				}
				synctest.Wait()
				backoff, stopped := h.view("c1").State.Lasting.Backoff, []string{"c1", "c2"}
				if !h.running("c1") {
					stopped = stopped[1:]
				}
				if tt.graceful {
					h.stopEngine(stopped...)
				} else {
					h.killEngine()
				}
				time.Sleep(100 * time.Millisecond)
				h.startEngine()
				if tt.within > 0 {
					h.sleep(tt.within - time.Second)
					if h.running("c1") {
						h.t.Error("was started too early")
					}
					h.sleep(time.Second)
				}
				if h.running("c1") != tt.runs || h.running("c2") != (tt.policy != core.Never) {
					h.t.Errorf("c1 runs: %v, c2 runs: %v; c1 is %+v", h.running("c1"), h.running("c2"), h.view("c1").State)
				}
				if got := h.view("c1").State.Lasting.Backoff; got != backoff {
					h.t.Errorf("back-off %+v, want %+v", got, backoff)
				}
				h.sleep(time.Hour)
				if h.running("c1") != tt.runs {
					h.t.Errorf("an hour later c1 runs: %v", h.running("c1"))
				}
			})
		})
	}
}

// All containers are stopped, and later the engine ends. The engine stopped them itself
// only when it refused new connections by then.
func TestOperatorStopOrEngineShutdown(t *testing.T) {
	for _, engines := range []bool{true, false} {
		for _, pause := range []time.Duration{10 * time.Millisecond, 4 * time.Second, 15 * time.Second, 90 * time.Second} {
			t.Run(fmt.Sprintf("by the engine: %v, %v before its end", engines, pause), func(t *testing.T) {
				playHost(t, plainSpec(core.Always), func(h *fakeHost) {
					h.startDaemon(runtime.ReplayUnknown, 0)
					h.engine.run("c1")
					h.engine.run("c2")
					h.sleep(time.Minute)
					h.engine.refuseConnections(engines)
					for _, id := range []string{"c1", "c2"} {
						h.signal(id, 15)
						h.engine.exit(id, 143)
					}
					h.sleep(pause)
					h.killEngine()
					time.Sleep(time.Second)
					h.startEngine()
					h.sleep(time.Hour)
					if h.running("c1") != engines || h.running("c2") != engines {
						h.t.Errorf("c1 runs: %v, c2 runs: %v", h.running("c1"), h.running("c2"))
					}
				})
			})
		}
	}
}

// healthd does not take a signal for survived while it has no connection to the engine.
func TestSignalBeforeALongDisconnect(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.run("c2")
		h.signal("c1", 15)
		_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		h.sleep(time.Hour)
		h.engine.exit("c1", 143)
		h.deliverList(h.daemon, runtime.ReplayComplete, nil)
		h.sleep(time.Hour)
		if s := h.view("c1").State; h.running("c1") || !s.OperatorStopped() {
			h.t.Errorf("started: %+v", s)
		}
	})
}

// Containers that outlive their engine (live-restore) are neither started nor stopped.
func TestEngineRestartWithLiveRestore(t *testing.T) {
	playHost(t, webSpec(), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		synctest.Wait()
		before := h.view("c1").State
		_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		h.startEngine()
		if s := h.view("c1").State; !s.Conditions.Ready.Status || s.Run.ID != before.Run.ID || len(h.engine.calls()) != 0 {
			h.t.Errorf("calls %v, state %+v", h.engine.calls(), s)
		}
	})
}

// Where containers outlive their engine, one that ended meanwhile did not end with it: its own policy and exit code
// decide. That they do so is shown by one that has.
func TestEndWhileAnEngineWithLiveRestoreIsAway(t *testing.T) {
	for _, tt := range []struct {
		name      string
		policy    core.RestartPolicy
		code      int
		neighbour string // what becomes of another container meanwhile
		away      bool   // healthd is away, too
		runs      bool
		reason    string
	}{
		{"a job that has done its work", core.OnFailure, 0, "lives on", false, false, core.ReasonCompleted},
		{"a job that has failed", core.OnFailure, 1, "lives on", false, true, core.ReasonError},
		{"a service", core.Always, 0, "lives on", false, true, core.ReasonCompleted},
		{"a job whose end nobody has watched", core.OnFailure, 0, "lives on", true, false, core.ReasonCompleted},
		{"a crash that nobody has watched", core.OnFailure, 1, "lives on", true, true, core.ReasonError},
		{"the restart ends all", core.OnFailure, 0, "ends", false, true, core.ReasonCompleted},
		{"another one was started since", core.OnFailure, 0, "gets a new run", false, true, core.ReasonCompleted},
		{"the other one cannot be inspected", core.OnFailure, 0, "unknown", false, true, core.ReasonCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playHost(t, plainSpec(tt.policy), func(h *fakeHost) {
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.engine.run("c1")
				h.engine.run("c2")
				h.sleep(time.Minute)
				_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
				if tt.away {
					h.kill()
				}
				h.engine.endRun("c1", tt.code)
				switch tt.neighbour {
				case "ends", "gets a new run":
					h.engine.endRun("c2", 143)
				case "unknown":
					h.notInspectable = "c2"
				}
				time.Sleep(time.Second)
				if tt.neighbour == "gets a new run" {
					h.engine.beginRun("c2")
				}
				if tt.away {
					h.startDaemon(runtime.ReplayRestart, 0)
				} else {
					h.startEngine()
				}
				h.sleep(time.Minute)
				s := h.view("c1").State
				exit := s.Run.Exit
				if s.Engine.State.Alive() {
					exit = s.Run.LastExit
				}
				if h.running("c1") != tt.runs || exit.Reason != tt.reason {
					h.t.Errorf("it runs: %v, want %v; ended for %s, want %s", !tt.runs, tt.runs, exit.Reason, tt.reason)
				}
			})
		})
	}
}

// A container whose watcher reports it no more shows nothing of a restart of its engine.
func TestUnreportedDoesNotOutliveItsEngine(t *testing.T) {
	spec := probesSpec(time.Second, core.Liveness)
	spec.Publish.Drain, spec.RestartPolicy = 10*time.Minute, core.OnFailure
	playHost(t, spec, func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.run("x")
		h.sleep(5 * time.Second)
		h.probes.setResult("x:2", refused)
		h.sleep(2 * time.Second)
		if err := h.daemon.Reload(context.Background(), func(c runtime.Traits) (*core.Spec, error) {
			if c.Name == "n-x" {
				return nil, nil
			}
			return spec, nil
		}, core.Guard{}); err != nil {
			t.Fatal(err)
		}
		_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Removed, Unwanted: true, Runtime: "docker", ID: "x"})
		h.sleep(time.Second)
		if h.view("x").State.Action.Stopping != core.ByLiveness {
			t.Fatal("it is not in its drain")
		}
		_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		h.engine.endRun("c1", 0)
		h.engine.endRun("x", 0)
		h.engine.delete("x")
		time.Sleep(time.Second)
		h.startEngine()
		h.sleep(time.Minute)
		if !h.running("c1") {
			t.Error("what ended with its engine is not started")
		}
	})
}

// What ended long before its engine, while healthd was away, too, may be an operator's.
func TestEndedLongBeforeAnEngineWithLiveRestore(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		for _, id := range []string{"stopped", "outlives", "crashes"} {
			h.engine.run(id)
		}
		h.sleep(time.Minute)
		h.kill()
		h.engine.endRun("stopped", 143)
		time.Sleep(48 * time.Hour)
		h.engine.endRun("crashes", 1)
		h.startDaemon(runtime.ReplayRestart, 0)
		h.sleep(time.Minute)
		for id, want := range map[string]bool{"stopped": false, "crashes": true} {
			if h.running(id) != want {
				t.Errorf("%s runs: %v, want %v", id, !want, want)
			}
		}
	})
}

// After a boot of the host healthd starts the containers that ran before, and no others.
func TestReboot(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		for name, replay := range replays {
			t.Run(fmt.Sprintf("shutdown: %v, replay %s", graceful, name), func(t *testing.T) {
				playHost(t, plainSpec(core.Always), func(h *fakeHost) {
					h.startDaemon(runtime.ReplayUnknown, 0)
					for _, id := range []string{"alive", "stopped", "done", "backing-off"} {
						h.engine.run(id)
					}
					h.resolve = func(c runtime.Traits) (*core.Spec, error) {
						if c.Name == "n-done" {
							return plainSpec(core.OnFailure), nil
						}
						return plainSpec(core.Always), nil
					}
					_ = h.daemon.Reload(h.t.Context(), h.resolve, core.Guard{})
					h.operatorStop("stopped")
					h.engine.exit("done", 0)
					h.engine.exit("backing-off", 1)
					synctest.Wait()
					h.engine.exit("backing-off", 1)
					h.sleep(10 * time.Millisecond)
					if graceful {
						h.sleep(10 * time.Second)
						h.engine.refuseConnections(true)
						h.signal("alive", 15)
						h.signal("backing-off", 15)
						h.engine.exit("alive", 143)
						synctest.Wait()
					}
					h.kill()
					h.killEngine()
					time.Sleep(time.Minute)
					h.engine.refuseConnections(false)
					h.startDaemon(replay, 0, "docker")
					h.sleep(time.Second)
					want := []string{"alive", "backing-off"}
					var got []string
					for _, id := range []string{"alive", "backing-off", "done", "stopped"} {
						if h.running(id) {
							got = append(got, id)
						}
					}
					if !slices.Equal(got, want) {
						h.t.Errorf("%v run, want %v", got, want)
					}
				})
			})
		}
	}
}
