package supervisor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Events and answers of a container that healthd has never seen have no effect.
func TestEventsOfAnUnknownContainer(t *testing.T) {
	t.Attr("kubelet", "111")
	play(t, probesSpec(time.Second, everyProbe...), func(h *harness) {
		h.engine.run("other")
		for _, kind := range []runtime.UpdateKind{runtime.Killed, runtime.Died, runtime.Stopped} {
			h.engine.deliver(runtime.Update{Kind: kind, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()})
		}
		for _, probe := range everyProbe {
			_ = h.send(h.t.Context(), &probeAnswer{id: "c1", probe: probe, result: refused})
		}
		time.Sleep(10 * time.Second)
		h.view("other")
		if v, err := h.Board().Find("c1"); err == nil {
			h.t.Errorf("found %+v", v)
		}
		for _, probe := range everyProbe {
			if n := h.probes.timesAsked(fmt.Sprintf("c1:%d", probe+1)); n != 0 {
				h.t.Errorf("%s ran %d times", probe, n)
			}
		}
		h.engine.run("c1")
		synctest.Wait()
		for probe, y := range h.view("c1").State.Health.Probes {
			if n := h.probes.timesAsked(fmt.Sprintf("c1:%d", probe+1)); n != 1 || y.Result != prober.Success {
				h.t.Errorf("%s ran %d times: %+v", core.ProbeType(probe), n, y)
			}
		}
	})
}

// A probe's answer that arrives after an operator's signal has no effect.
func TestAnswerAfterAnOperatorsSignal(t *testing.T) {
	for _, probe := range []core.ProbeType{core.Startup, core.Liveness} {
		t.Run(probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "110")
			play(t, probesSpec(time.Second, probe), func(h *harness) {
				h.probes.hanging[fmt.Sprintf("c1:%d", probe+1)] = true
				h.engine.run("c1")
				run := h.view("c1").State.Run.ID
				h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()})
				if y := h.view("c1").State.Health.Probes[probe]; !y.Running || y.Result != prober.Success {
					h.t.Errorf("when it was sent the signal: %+v", y)
				}
				_ = h.send(h.t.Context(), &probeAnswer{id: "c1", run: run, version: 1, probe: probe, result: refused})
				if s := h.view("c1").State; s.Health.Probes[probe].Result != prober.Success || s.Health.Probes[probe].Running || s.Action.Stopping != core.NoCause {
					h.t.Errorf("after the answer: %+v", s)
				}
				if got := h.journal.reasons("n-c1"); slices.Contains(got, core.EventUnhealthy) {
					h.t.Errorf("events %v", got)
				}
			})
		})
	}
}

// The engine shows by mistake that a run has ended, and then the same run alive. healthd believes what it has asked for
// after that, by a look of its own or after a start that did nothing. An inspection that was overtaken by the news of the
// end proves nothing.
func TestRunThatLivesOn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy core.RestartPolicy
		told   bool // the watcher tells it, else healthd's start call finds it
		lives  bool
	}{
		{"told by the watcher", core.Never, true, true},
		{"found by a start call", core.Always, false, true},
		{"told by an answer that was overtaken", core.Never, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			idle := &idleStarts{}
			playWith(t, plainSpec(tt.policy), func(c *Config) {
				idle.fakeEngine = c.Runtimes["docker"].(*fakeEngine)
				c.Runtimes["docker"] = idle
			}, func(h *harness) {
				h.sendSynced()
				h.engine.run("c1")
				time.Sleep(time.Second)
				alive := h.engine.observation("c1")
				h.engine.endRun("c1", 255)
				ended := h.engine.observation("c1")
				idle.lives = func() {
					h.engine.mu.Lock()
					defer h.engine.mu.Unlock()
					h.engine.containers["c1"] = alive.Container
				}
				if tt.lives && tt.told {
					idle.lives()
				}
				h.engine.deliver(ended)
				time.Sleep(time.Second)
				if tt.told {
					h.engine.deliver(alive)
				}
				time.Sleep(time.Minute)
				s := h.view("c1").State
				if s.Engine.State.Alive() != tt.lives || s.Conditions.Ready.Status != tt.lives || s.Run.ID != alive.Container.Run() {
					h.t.Errorf("it is %s, ready %v, calls %v", s.Engine.State, s.Conditions.Ready.Status, h.engine.calls())
				}
			})
		})
	}
}

// All events of a run are lost, so that only looks of healthd's own show it, and its end. Who ended it is in the engine's
// history.
func TestEndThatOnlyALookHasShown(t *testing.T) {
	for _, newer := range []bool{false, true} {
		unreported := &idleStarts{}
		playWith(t, plainSpec(core.Always), func(c *Config) {
			unreported.fakeEngine = c.Runtimes["docker"].(*fakeEngine)
			unreported.lives = func() { unreported.beginRun("c1") }
			c.Runtimes["docker"] = unreported
		}, func(h *harness) {
			h.sendSynced()
			h.engine.run("c1")
			time.Sleep(time.Second)
			h.engine.exit("c1", 1)
			time.Sleep(time.Second)
			if newer {
				h.engine.beginRun("c1")
			}
			time.Sleep(time.Second)
			h.engine.lostKills = []runtime.Event{{ID: "c1", Action: runtime.ActionKill, Time: time.Now(), Signal: 9}}
			h.engine.endRun("c1", 137)
			h.sendSynced()
			time.Sleep(time.Minute)
			if s := h.view("c1").State; len(h.engine.calls()) != 1 || !s.OperatorStopped() {
				h.t.Errorf("a newer run %v: it is %s, stopped by an operator %v; calls %v", newer, s.Engine.State, s.OperatorStopped(), h.engine.calls())
			}
		})
	}
}

// idleStarts is an engine whose start calls do nothing but lives.
type idleStarts struct {
	*fakeEngine
	lives func()
}

func (e *idleStarts) Start(_ context.Context, id string) error {
	e.noteCall("start %s", id)
	time.Sleep(10 * time.Millisecond)
	e.lives()
	return nil
}

// A slow engine tells the end of a run when its probes have failed already: they asked the dead address. The run ended
// by itself, unless healthd had decided to stop it before.
func TestEndToldAfterTheProbesHaveFailed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy core.RestartPolicy
		code   int
		hung   bool // it fails before it ends
		untold bool // the engine does not tell when it ended
		starts int
		reason string
	}{
		{"a job that has done its work", core.OnFailure, 0, false, false, 0, core.ReasonCompleted},
		{"a crash", core.OnFailure, 1, false, false, 1, core.ReasonError},
		{"a service that ends", core.Always, 0, false, false, 1, core.ReasonCompleted},
		{"it failed, and ended in its drain", core.OnFailure, 0, true, false, 1, core.ReasonLivenessFailed},
		{"the same, of an engine that tells no time", core.OnFailure, 0, true, true, 1, core.ReasonLivenessFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := probesSpec(time.Second, core.Liveness)
			spec.RestartPolicy, spec.Publish.Drain = tt.policy, 5*time.Second
			play(t, spec, func(h *harness) {
				h.engine.run("a")
				pass(3500 * time.Millisecond)
				end := func() { h.engine.endRun("a", tt.code) }
				if !tt.hung {
					end()
				}
				h.failLiveness("a")
				pass(2 * time.Second)
				if h.view("a").State.Action.Stopping != core.ByLiveness {
					h.t.Fatal("the liveness probe has not failed")
				}
				if tt.hung {
					end()
				}
				if tt.untold {
					h.engine.mu.Lock()
					c := *h.engine.containers["a"]
					c.FinishedAt = time.Time{}
					h.engine.containers["a"] = &c
					h.engine.mu.Unlock()
				}
				pass(time.Second)
				h.probes.setResult("a:2", success)
				h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "a", ExitCode: tt.code, Time: time.Now()})
				h.engine.deliver(h.engine.observation("a"))
				synctest.Wait()
				pass(time.Minute)
				exit := h.view("a").State.Run.Exit
				if tt.starts > 0 {
					exit = h.view("a").State.Run.LastExit
				}
				if got := h.engine.calls(); len(got) != tt.starts || exit.Reason != tt.reason {
					h.t.Errorf("calls %v, ended for %s, want %d starts and %s", got, exit.Reason, tt.starts, tt.reason)
				}
			})
		})
	}
}
