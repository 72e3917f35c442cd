package supervisor

import (
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
func TestOperatorsStopOutlivesDaemons(t *testing.T) {
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
				synctest.Test(t, func(t *testing.T) {
					e := newFakeHost(t, plainSpec(core.Always))
					e.startDaemon(runtime.ReplayUnknown, 0, false)
					e.engine.run("c1")
					e.engine.run("c2") // so that this is no end of the engine
					synctest.Wait()
					switch when {
					case before:
						e.operatorStop("c1")
						e.sleep(10 * time.Second)
					case half, long, slow:
						e.signal("c1", 15)
						e.sleep(10 * time.Second)
					}
					if when == slow {
						e.sleep(5 * time.Minute)
					}
					e.kill()
					time.Sleep(time.Second)
					switch when {
					case while:
						e.operatorStop("c1")
					case long:
						time.Sleep(time.Hour)
						fallthrough
					case half, slow:
						e.engine.exit("c1", 143)
						e.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: "c1"})
					}
					if replay == runtime.ReplayRestart {
						e.killEngine()
					}
					e.startDaemon(replay, 0, false)
					if when == after {
						e.sleep(10 * time.Second)
						e.operatorStop("c1")
					}
					e.sleep(time.Hour)
					if s := e.view("c1").State; e.running("c1") || !s.OperatorStopped() || s.Action.Restart != core.NoCause {
						t.Errorf("started, or to be: %+v", s)
					}
					if when != after && e.engine.runs > 3 || !e.running("c2") {
						t.Errorf("%d runs; c2 runs: %v", e.engine.runs, e.running("c2"))
					}
					e.shutDown()
				})
			})
		}
	}
}

// healthd leaves a stopped container alone when neither events nor the Store tell why it
// stopped, and records that.
func TestWhatNothingTellsOfIsLeftAlone(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known before: %v", known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeHost(t, plainSpec(core.Always))
				if known {
					e.startDaemon(runtime.ReplayUnknown, 0, false)
					e.engine.run("c1")
					synctest.Wait()
					e.kill()
				} else {
					e.engine.run("c1")
				}
				e.engine.exit("c1", 1)
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				e.sleep(time.Hour)
				if e.running("c1") || e.eventCount("c1", core.EventExited) != 1 {
					t.Errorf("runs: %v, events %v", e.running("c1"), e.journal.reasons("n-c1"))
				}
				e.shutDown()
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
		{"in good order", core.Always, "", true, nil, true, 0},
		{"in good order, OnFailure", core.OnFailure, "", true, nil, true, 0},
		{"in good order, Never", core.Never, "", true, nil, false, 0},
		{"in good order, the engine is to start it", core.Always, "always", true, nil, true, 10 * time.Second},
		{"in good order, stopped long before", core.Always, "", true, func(e *fakeHost) {
			e.operatorStop("c1")
			e.sleep(time.Minute)
		}, false, 0},
		{"in good order, stopped a moment before", core.Always, "", true, func(e *fakeHost) {
			e.operatorStop("c1")
			e.sleep(6 * time.Second)
		}, false, 0},
		{"killed", core.Always, "", false, nil, true, 0},
		{"killed, Never", core.Never, "", false, nil, false, 0},
		{"killed, the engine is to start it", core.Always, "always", false, nil, true, 10 * time.Second},
		{"killed, stopped long before", core.Always, "", false, func(e *fakeHost) {
			e.operatorStop("c1")
			e.sleep(time.Minute)
		}, false, 0},
		{"killed a moment after a stop", core.Always, "", false, func(e *fakeHost) { e.operatorStop("c1") }, false, 0},
		{"killed after a signal to one", core.Always, "", false, func(e *fakeHost) { e.signal("c1", 15) }, false, 0},
		{"killed in a back-off", core.Always, "", false, func(e *fakeHost) {
			e.engine.exit("c1", 1)
			e.sleep(time.Millisecond)
			e.engine.exit("c1", 1) // back-off: one second
		}, true, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeHost(t, plainSpec(tt.policy))
				e.engine.policy = tt.engine
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				e.engine.run("c1")
				e.engine.run("c2")
				synctest.Wait()
				if tt.before != nil {
					tt.before(e)
				}
				synctest.Wait()
				backoff, stopped := e.view("c1").State.Lasting.Backoff, []string{"c1", "c2"}
				if !e.running("c1") {
					stopped = stopped[1:]
				}
				if tt.graceful {
					e.stopEngine(stopped...)
				} else {
					e.killEngine()
				}
				time.Sleep(100 * time.Millisecond)
				e.startEngine()
				if tt.within > 0 {
					e.sleep(tt.within - time.Second)
					if e.running("c1") {
						t.Error("was started too early")
					}
					e.sleep(time.Second)
				}
				if e.running("c1") != tt.runs || e.running("c2") != (tt.policy != core.Never) {
					t.Errorf("c1 runs: %v, c2 runs: %v; c1 is %+v", e.running("c1"), e.running("c2"), e.view("c1").State)
				}
				if got := e.view("c1").State.Lasting.Backoff; got != backoff {
					t.Errorf("back-off %+v, want %+v", got, backoff)
				}
				e.sleep(time.Hour)
				if e.running("c1") != tt.runs {
					t.Errorf("an hour later c1 runs: %v", e.running("c1"))
				}
				e.shutDown()
			})
		})
	}
}

// All containers are stopped, and later the engine ends. The engine stopped them itself
// only when it refused new connections by then.
func TestWhoseStopItWas(t *testing.T) {
	for _, engines := range []bool{true, false} {
		for _, pause := range []time.Duration{10 * time.Millisecond, 4 * time.Second, 15 * time.Second, 90 * time.Second} {
			t.Run(fmt.Sprintf("the engine's %v, %v before its end", engines, pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFakeHost(t, plainSpec(core.Always))
					e.startDaemon(runtime.ReplayUnknown, 0, false)
					e.engine.run("c1")
					e.engine.run("c2")
					e.sleep(time.Minute)
					e.engine.refuseConnections(engines)
					for _, id := range []string{"c1", "c2"} {
						e.signal(id, 15)
						e.engine.exit(id, 143)
					}
					e.sleep(pause)
					e.killEngine()
					time.Sleep(time.Second)
					e.startEngine()
					e.sleep(time.Hour)
					if e.running("c1") != engines || e.running("c2") != engines {
						t.Errorf("c1 runs: %v, c2 runs: %v", e.running("c1"), e.running("c2"))
					}
					e.shutDown()
				})
			})
		}
	}
}

// healthd does not take a signal for survived while it has no connection to the engine.
func TestSignalBeforeALongLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeHost(t, plainSpec(core.Always))
		e.startDaemon(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.run("c2")
		e.signal("c1", 15)
		_ = e.daemon.Deliver(t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		e.sleep(time.Hour)
		e.engine.exit("c1", 143)
		e.deliverList(e.daemon, runtime.ReplayComplete, nil)
		e.sleep(time.Hour)
		if s := e.view("c1").State; e.running("c1") || !s.OperatorStopped() {
			t.Errorf("started: %+v", s)
		}
		e.shutDown()
	})
}

// Containers that outlive their engine (live-restore) are neither started nor stopped.
func TestEngineRestartThatContainersOutlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeHost(t, webSpec())
		e.startDaemon(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		synctest.Wait()
		before := e.view("c1").State
		_ = e.daemon.Deliver(t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		e.startEngine()
		if s := e.view("c1").State; !s.Conditions.Ready.Status || s.Run.ID != before.Run.ID || len(e.engine.calls()) != 0 {
			t.Errorf("calls %v, state %+v", e.engine.calls(), s)
		}
		e.shutDown()
	})
}

// After a boot of the host healthd starts the containers that ran before, and no others.
func TestReboot(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		for name, replay := range replays {
			t.Run(fmt.Sprintf("in good order: %v, replay %s", graceful, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFakeHost(t, plainSpec(core.Always))
					e.startDaemon(runtime.ReplayUnknown, 0, false)
					for _, id := range []string{"alive", "stopped", "done", "backing-off"} {
						e.engine.run(id)
					}
					e.resolve = func(name string, _ map[string]string) (*core.Spec, error) {
						if name == "n-done" {
							return plainSpec(core.OnFailure), nil
						}
						return plainSpec(core.Always), nil
					}
					_ = e.daemon.Reload(t.Context(), e.resolve, core.Guard{})
					e.operatorStop("stopped")
					e.engine.exit("done", 0)
					e.engine.exit("backing-off", 1)
					synctest.Wait()
					e.engine.exit("backing-off", 1)
					e.sleep(10 * time.Millisecond)
					if graceful {
						e.sleep(10 * time.Second)
						e.engine.refuseConnections(true)
						e.signal("alive", 15)
						e.signal("backing-off", 15)
						e.engine.exit("alive", 143)
						synctest.Wait()
					}
					e.kill()
					e.killEngine()
					time.Sleep(time.Minute)
					e.engine.refuseConnections(false)
					e.startDaemon(replay, 0, true)
					e.sleep(time.Second)
					want := []string{"alive", "backing-off"}
					var got []string
					for _, id := range []string{"alive", "backing-off", "done", "stopped"} {
						if e.running(id) {
							got = append(got, id)
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%v run, want %v", got, want)
					}
					e.shutDown()
				})
			})
		}
	}
}
