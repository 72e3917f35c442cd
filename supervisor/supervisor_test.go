package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

func TestFailedLivenessIsDrainedStoppedAndStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if v := h.view(t, "n-c1"); !v.State.Ready {
			t.Fatalf("not ready after the first success: %+v", v.State)
		}

		h.probes.say("c1:1", refused)
		time.Sleep(30 * time.Second) // failures at 10, 20 and 30 s
		synctest.Wait()
		if v := h.view(t, "c1"); v.State.Ready || !v.State.Draining() {
			t.Fatalf("not withdrawn after three failures: %+v", v.State)
		}
		if calls := h.engine.madeCalls(); len(calls) != 0 {
			t.Fatalf("stopped before the drain was over: %v", calls)
		}
		h.probes.say("c1:1", prober.Result{Outcome: prober.Success})
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got, want := h.engine.madeCalls(), []string{"stop c1 30s", "start c1"}; !slices.Equal(got, want) {
			t.Fatalf("calls %v, want %v", got, want)
		}
		v := h.view(t, "c1")
		if !v.State.Ready || v.State.RestartCount() != 1 || v.State.Restarts[ByLiveness] != 1 {
			t.Errorf("after the restart: %+v", v.State)
		}
		want := []string{"Started", "Ready", "Unhealthy", "Unhealthy", "Unhealthy", "Killing", "NotReady", "Exited", "Started", "Ready"}
		if got := h.diary.reasons("n-c1"); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestCrashLoopBacksOffFromExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, &Spec{RestartPolicy: Always, Backoff: Backoff{time.Second, time.Minute, time.Hour}})
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		for _, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			synctest.Wait()
			h.engine.exit("c1", 1)
			ended := time.Now()
			time.Sleep(want*time.Second + time.Millisecond)
			synctest.Wait()
			v := h.view(t, "c1")
			if got := v.State.StartedAt.Sub(ended).Truncate(time.Millisecond); v.State.Engine != runtime.Running || got != want*time.Second {
				t.Fatalf("%s, started %v after the exit, want %v", v.State.Engine, got, want*time.Second)
			}
		}
	})
}

// kubelet 134: a verdict of an earlier run says nothing of the next one.
func TestAnswerOfAnEarlierRunIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := webSpec()
		spec.Probes[Liveness].FailureThreshold = 1
		h := open(t, spec)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		first := h.view(t, "c1").State.Run
		h.engine.exit("c1", 1) // restarted at once
		time.Sleep(time.Second)
		synctest.Wait()
		_ = h.send(context.Background(), &answer{id: "c1", run: first, epoch: 1, probe: Liveness, result: refused})
		_ = h.send(context.Background(), &answer{id: "gone", run: first, probe: Liveness, result: refused})
		if v := h.view(t, "c1"); v.State.Stopping != NoCause || v.State.Tallies[Liveness].Outcome != prober.Success {
			t.Errorf("a late answer counted: %+v", v.State)
		}
	})
}

func TestSlowProbeNeitherOverlapsNorDrifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		begun := h.view(t, "c1").State.BeganAt
		h.probes.mu.Lock()
		h.probes.hang["c1:2"] = true
		h.probes.mu.Unlock()
		time.Sleep(22 * time.Second)
		synctest.Wait()
		if n := h.probes.times("c1:2"); n != 2 {
			t.Fatalf("asked %d times while one probe hangs, want 2", n)
		}
		v := h.view(t, "c1")
		_ = h.send(context.Background(), &answer{id: "c1", run: v.State.Run, epoch: 1, probe: Readiness, result: refused})
		due := h.view(t, "c1").State.Tallies[Readiness].Due
		if got := due.Sub(begun); got != 25*time.Second {
			t.Errorf("next probe %v after the start, want 25 s: on the grid", got)
		}
	})
}

func TestInvalidLabelsAreShownAndNothingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.containers["c1"] = &runtime.Container{Labels: map[string]string{"wrong": "label healthd.x: unknown"}}
		h.engine.run("c1")
		synctest.Wait()
		v := h.view(t, "c1")
		ready, reason, message := v.Readiness()
		if v.Invalid == "" || ready || reason != NotReadyInvalid || message != v.Invalid {
			t.Errorf("view %+v, readiness %v %s %s", v, ready, reason, message)
		}
		h.engine.exit("c1", 1)
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		synctest.Wait()
		if v := h.view(t, "c1"); v.State.Engine != runtime.Exited || v.Phase() != PhaseUnknown {
			t.Errorf("state %s, phase %s", v.State.Engine, v.Phase())
		}
		if calls := h.engine.madeCalls(); len(calls) != 0 {
			t.Errorf("calls %v for a container with wrong labels", calls)
		}
		if err := h.Restart(t.Context(), "c1"); err == nil {
			t.Error("a restart of a container with wrong labels was accepted")
		}
		if got := h.diary.reasons("n-c1"); !slices.Equal(got, []string{"Invalid"}) {
			t.Errorf("events %v", got)
		}
	})
}

func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := webSpec()
		spec.Publish.Drain = 10 * time.Second
		h := open(t, spec)
		h.engine.stopTakes = 3 * time.Second
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "n-c1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		begun := time.Now()
		h.close(t)
		if took := time.Since(begun); took != 9*time.Second {
			t.Errorf("shutdown took %v, want the rest of the drain and the stop: 9 s", took)
		}
		if got, want := h.engine.madeCalls(), []string{"stop c1 30s", "start c1"}; !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		if err := h.Restart(t.Context(), "n-c1"); !errors.Is(err, ErrStopping) {
			t.Errorf("a restart after the end: %v", err)
		}
	})
}

func TestShutdownWithLostRuntimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "n-c1"); err != nil {
			t.Fatal(err)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		synctest.Wait()
		h.close(t)
		if calls := h.engine.madeCalls(); len(calls) != 0 {
			t.Errorf("calls to an engine that is gone: %v", calls)
		}
	})
}

func TestRemovedContainerLeavesOnlyItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.engine.exit("c1", 1) // restarted at once
		synctest.Wait()
		h.engine.exit("c1", 1) // waits a second
		synctest.Wait()
		if d := h.view(t, "c1").State.Backoff.Delay; d != time.Second {
			t.Fatalf("back-off %v after two ends, want 1 s", d)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		if err := h.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := h.Board().Find("n-c1"); ok || len(h.Board().Views()) != 0 {
			t.Error("a removed container is still on the board")
		}
		time.Sleep(time.Minute)
		if calls := h.engine.madeCalls(); len(calls) != 1 {
			t.Errorf("calls %v for a removed container", calls)
		}
		h.engine.names["c2"] = "n-c1" // re-created under the same name
		h.engine.run("c2")
		synctest.Wait()
		v := h.view(t, "n-c1")
		if v.Container.ID != "c2" || v.State.Backoff.Delay != time.Second {
			t.Errorf("n-c1 is %s with back-off %v, want c2 with that of c1", v.Container.ID, v.State.Backoff.Delay)
		}
	})
}

func TestRenameMovesTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		h.engine.run("c2")
		synctest.Wait()
		renamed := func(id, name string) {
			c := *h.engine.containers[id]
			c.Name = name
			h.engine.containers[id] = &c
			h.engine.deliver(h.engine.seen(id))
		}
		renamed("c1", "old")
		renamed("c2", "n-c1")
		synctest.Wait()
		if v := h.view(t, "n-c1"); v.Container.ID != "c2" {
			t.Errorf("n-c1 is %s, want c2", v.Container.ID)
		}
		if v := h.view(t, "old"); v.Container.ID != "c1" || !v.State.Ready {
			t.Errorf("old is %s, ready %v", v.Container.ID, v.State.Ready)
		}
		if _, ok := h.Board().Find("n-c2"); ok {
			t.Error("n-c2 is still found")
		}
	})
}

func TestHundredContainersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		for i := range 100 {
			h.engine.run(fmt.Sprintf("c%d", i))
		}
		synctest.Wait()
		for i := range 100 {
			h.probes.say(fmt.Sprintf("c%d:1", i), refused)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stops := 0
		for _, c := range h.engine.madeCalls() {
			if c[:4] == "stop" {
				stops++
			}
		}
		if stops < 100 {
			t.Errorf("%d of 100 failed containers were stopped", stops)
		}
	})
}

func TestFoundContainersAreSpreadOverThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		for i := range 50 {
			h.engine.run(fmt.Sprintf("c%d", i))
		}
		h.synced()
		synctest.Wait()
		halves := [2]int{}
		for _, v := range h.Board().Views() {
			wait := time.Until(v.State.Tallies[Readiness].Due)
			if wait < 0 || wait >= 5*time.Second {
				t.Fatalf("first probe in %v, want within one period", wait)
			}
			halves[int(wait/(2500*time.Millisecond))]++
		}
		if halves[0] < 10 || halves[1] < 10 {
			t.Errorf("first probes are not spread: %v", halves)
		}
	})
}

func TestRuntimeViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		if h.Board().Synced() {
			t.Error("synced before the first list")
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("no engine")})
		h.synced()
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistInterval})
		synctest.Wait()
		r := h.Board().Runtimes()
		if len(r) != 1 || !r[0].Up || !h.Board().Synced() || r[0].Relists[runtime.RelistStart] != 1 || r[0].Relists[runtime.RelistInterval] != 1 {
			t.Errorf("runtimes %+v", r)
		}
		if got, want := h.diary.reasons(""), []string{"RuntimeLost", "RuntimeBack"}; !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestAskChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.probes.say("c1:1", refused)
		before := h.view(t, "c1").State
		r, err := h.Ask(t.Context(), "c1", Liveness)
		if err != nil || r.Outcome != prober.Failure {
			t.Errorf("Ask: %+v, %v", r, err)
		}
		if after := h.view(t, "c1").State; after != before {
			t.Errorf("Ask changed the state: %+v", after)
		}
		if _, err := h.Ask(t.Context(), "c1", Startup); !errors.Is(err, ErrNoProbe) {
			t.Errorf("a probe that is not there: %v", err)
		}
		if _, err := h.Ask(t.Context(), "nobody", Startup); !errors.Is(err, ErrUnknownContainer) {
			t.Errorf("an unknown container: %v", err)
		}
	})
}
