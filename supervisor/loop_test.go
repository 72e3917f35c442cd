package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestFailedLivenessIsDrainedStoppedAndStarted(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		if v := h.view("n-c1"); !v.State.Conditions.Ready.Status {
			h.t.Fatalf("not ready after the first success: %+v", v.State)
		}

		h.probes.setResult("c1:1", refused)
		time.Sleep(30 * time.Second) // failures at 10, 20 and 30 s
		synctest.Wait()
		if v := h.view("c1"); v.State.Conditions.Ready.Status || !v.State.Draining() {
			h.t.Fatalf("not withdrawn after three failures: %+v", v.State)
		}
		if calls := h.engine.calls(); len(calls) != 0 {
			h.t.Fatalf("stopped before the drain was over: %v", calls)
		}
		h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success})
		pass(6 * time.Second)
		if got, want := h.engine.calls(), []string{"stop c1 30s", "start c1"}; !slices.Equal(got, want) {
			h.t.Fatalf("calls %v, want %v", got, want)
		}
		v := h.view("c1")
		if !v.State.Conditions.Ready.Status || v.State.RestartCount() != 1 || v.State.Lasting.Restarts[core.ByLiveness] != 1 {
			h.t.Errorf("after the restart: %+v", v.State)
		}
		want := []string{"Started", "Ready", "Unhealthy", "Unhealthy", "Unhealthy", "Killing", "NotReady", "Exited", "Started", "Ready"}
		if got := h.journal.reasons("n-c1"); !slices.Equal(got, want) {
			h.t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestCrashLoopBacksOffFromExit(t *testing.T) {
	play(t, &core.Spec{RestartPolicy: core.Always, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: time.Hour}}, func(h *harness) {
		h.engine.run("c1")
		for _, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			synctest.Wait()
			h.engine.exit("c1", 1)
			ended := time.Now()
			pass(want*time.Second + turnEvery)
			v := h.view("c1")
			if got := v.State.Run.StartedAt.Sub(ended).Truncate(turnEvery); v.State.Engine.State != runtime.Running || got != want*time.Second {
				h.t.Fatalf("%s, started %v after the exit, want %v", v.State.Engine.State, got, want*time.Second)
			}
		}
	})
}

// A probe's answer of an earlier run does not count for the next one (kubelet 134).
func TestAnswerOfAnEarlierRunIsDropped(t *testing.T) {
	spec := webSpec()
	spec.Probes[core.Liveness].FailureThreshold = 1
	play(t, spec, func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		first := h.view("c1").State.Run.ID
		h.engine.exit("c1", 1) // healthd restarts it at once
		pass(time.Second)
		h.probes.mu.Lock()
		h.probes.hanging["c1:1"] = true // so that the loop waits for an answer
		h.probes.mu.Unlock()
		pass(10 * time.Second)
		if !h.view("c1").State.Health.Probes[core.Liveness].Running {
			h.t.Fatal("no probe is under way")
		}
		_ = h.send(context.Background(), &probeAnswer{id: "c1", run: first, version: 1, probe: core.Liveness, result: refused})
		_ = h.send(context.Background(), &probeAnswer{id: "gone", run: first, probe: core.Liveness, result: refused})
		if y := h.view("c1").State.Health.Probes[core.Liveness]; y.Outcome != prober.Success || !y.Running {
			h.t.Errorf("a late answer counted: %+v", y)
		}
	})
}

func TestSlowProbeNeitherOverlapsNorDrifts(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		began := h.view("c1").State.Run.BeganAt
		h.probes.mu.Lock()
		h.probes.hanging["c1:2"] = true
		h.probes.mu.Unlock()
		pass(22 * time.Second)
		if n := h.probes.timesAsked("c1:2"); n != 2 {
			h.t.Fatalf("probed %d times while one probe hangs, want 2", n)
		}
		v := h.view("c1")
		_ = h.send(context.Background(), &probeAnswer{id: "c1", run: v.State.Run.ID, version: 1, probe: core.Readiness, result: refused})
		// One missed probe follows at once, as in the kubelet. The later ones keep the grid.
		y := h.view("c1").State.Health.Probes[core.Readiness]
		synctest.Wait()
		if got := y.Due.Sub(began); got != 20*time.Second || !y.Running || h.probes.timesAsked("c1:2") != 3 {
			h.t.Errorf("probed %d times, the last one due %v after the start, want 3 and 20 s: on the grid", h.probes.timesAsked("c1:2"), got)
		}
	})
}

// A shutdown finishes restarts, and leaves one whose drain takes too long to the next daemon. Meanwhile
// other containers are probed and published.
func TestShutdownFinishesRestarts(t *testing.T) {
	spec := webSpec()
	spec.Publish.Drain = 10 * time.Second
	playWith(t, spec, func(c *Config) { c.Shutdown = time.Minute }, func(h *harness) {
		h.engine.stopTakes = 25 * time.Second
		long := webSpec()
		long.Publish.Drain = time.Hour
		h.specs["n-c2"] = long
		h.sendSynced()
		for _, id := range []string{"c1", "c2", "c3"} {
			h.engine.run(id)
		}
		synctest.Wait()
		h.must(h.Restart(h.t.Context(), "n-c1"))
		time.Sleep(9 * time.Second)
		h.must(h.Restart(h.t.Context(), "n-c2"))
		time.Sleep(2 * time.Second)
		began := time.Now()
		h.stop()
		asked := h.probes.timesAsked("c3:1")
		time.Sleep(11 * time.Second)
		if n := h.probes.timesAsked("c3:1"); n == asked {
			h.t.Error("the other one is not probed any more")
		}
		h.close()
		if took := time.Since(began); took != 24*time.Second {
			h.t.Errorf("shutdown took %v, want the rest of the stop: 24 s", took)
		}
		if got, want := h.engine.calls(), []string{"stop c1 30s", "start c1"}; !slices.Equal(got, want) {
			h.t.Errorf("calls %v, want %v", got, want)
		}
		if err := h.Restart(h.t.Context(), "n-c1"); !errors.Is(err, ErrStopping) {
			h.t.Errorf("a restart after the end: %v", err)
		}
	})
}

// A stop may take as long as a label says.
func TestShutdownIsBounded(t *testing.T) {
	playWith(t, webSpec(), func(c *Config) { c.Shutdown = 30 * time.Second }, func(h *harness) {
		h.engine.stopTakes = time.Hour
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		h.must(h.Restart(h.t.Context(), "n-c1"))
		time.Sleep(time.Minute)
		began := time.Now()
		h.close()
		if took := time.Since(began); took != 30*time.Second {
			h.t.Errorf("shutdown took %v", took)
		}
		if !slices.Contains(h.journal.reasons(""), core.EventShutdownIncomplete) {
			h.t.Errorf("events %v", h.journal.reasons(""))
		}
	})
}

func TestShutdownWithLostRuntimeEnds(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.must(h.Restart(h.t.Context(), "n-c1"))
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		synctest.Wait()
		h.close()
		if calls := h.engine.calls(); len(calls) != 0 {
			h.t.Errorf("calls to a lost engine: %v", calls)
		}
	})
}

func TestHundredContainersAtOnce(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		for i := range 100 {
			h.engine.run(fmt.Sprintf("c%d", i))
		}
		synctest.Wait()
		for i := range 100 {
			h.probes.setResult(fmt.Sprintf("c%d:1", i), refused)
		}
		pass(time.Minute)
		stops := 0
		for _, c := range h.engine.calls() {
			if c[:4] == "stop" {
				stops++
			}
		}
		if stops < 100 {
			h.t.Errorf("%d of 100 failed containers were stopped", stops)
		}
	})
}

func TestAskChangesNothing(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.probes.setResult("c1:1", refused)
		before := h.view("c1").State
		r, err := h.Ask(h.t.Context(), "c1", core.Liveness)
		if err != nil || r.Outcome != prober.Failure {
			h.t.Errorf("Ask: %+v, %v", r, err)
		}
		if after := h.view("c1").State; !reflect.DeepEqual(after, before) {
			h.t.Errorf("Ask changed the state: %+v", after)
		}
		if _, err := h.Ask(h.t.Context(), "c1", core.Startup); !errors.Is(err, ErrNoProbe) {
			h.t.Errorf("a probe that is not there: %v", err)
		}
		if _, err := h.Ask(h.t.Context(), "nobody", core.Startup); !errors.Is(err, ErrUnknownContainer) {
			h.t.Errorf("an unknown container: %v", err)
		}
	})
}

// journalFunc is a Journal that calls a function with every event.
type journalFunc func(core.Event)

func (f journalFunc) Record(e core.Event) { f(e) }

func TestReadinessIsWithdrawnBeforeEffects(t *testing.T) {
	spec := webSpec()
	spec.Publish.Drain, spec.Probes[core.Liveness].FailureThreshold = 0, 1
	playWith(t, spec, nil, func(h *harness) {
		h.config.Journal = journalFunc(func(e core.Event) {
			if v, _ := h.Board().Find("n-c1"); e.Reason == core.EventKilling && v.State.Conditions.Ready.Status {
				h.t.Error("still ready on the board when the stop was decided")
			}
			h.journal.Record(e)
		})
		h.engine.onStop = func() {
			if v, _ := h.Board().Find("n-c1"); v.State.Conditions.Ready.Status {
				h.t.Error("still ready on the board when the stop was made")
			}
		}
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		h.probes.setResult("c1:1", refused)
		pass(10 * time.Second)
		if calls := h.engine.calls(); len(calls) == 0 {
			h.t.Error("nothing was stopped")
		}
	})
}
