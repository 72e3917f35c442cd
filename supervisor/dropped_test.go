package supervisor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// slowProber has probes and hooks that come back when the test says so, also after the end of their context: a command
// may take long to end.
type slowProber struct {
	asked chan chan prober.Result
	over  chan struct{} // they all come back
}

func (s slowProber) Probe(prober.Handler, prober.Target) (prober.Probe, error) { return s, nil }

func (s slowProber) Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error) { return s, nil }

func (s slowProber) Ask(context.Context, time.Duration) prober.Result {
	answer := make(chan prober.Result)
	s.asked <- answer
	select {
	case r := <-answer:
		return r
	case <-s.over:
		return prober.Result{Outcome: prober.Success}
	}
}

func (s slowProber) Run(ctx context.Context) prober.HookResult {
	if r := s.Ask(ctx, 0); r.Outcome != prober.Success {
		return prober.HookResult{Err: errors.New(r.Output)}
	}
	return prober.HookResult{}
}

func (s slowProber) Close() {}

// playDropped has a reload drop a container in the middle of what runs first of its spec, and the next one take it
// back. What began then is answered after the first one has failed.
func playDropped(t *testing.T, spec *core.Spec, answered func(h *harness, others int)) {
	t.Helper()
	var slow slowProber
	playWith(t, spec, func(c *Config) {
		slow = slowProber{make(chan chan prober.Result, 100), make(chan struct{})} // in the bubble
		c.Prober = slow
	}, func(h *harness) {
		defer close(slow.over)
		h.sendSynced()
		h.engine.run("c1")
		first := <-slow.asked
		h.reload(map[string]*core.Spec{})
		h.reload(map[string]*core.Spec{"": spec})
		present := <-slow.asked
		first <- refused
		pass(5 * time.Second)
		others := len(slow.asked)
		present <- prober.Result{Outcome: prober.Success, Output: "present"}
		synctest.Wait()
		answered(h, others)
	})
}

func TestProbeFromBeforeTheContainerWasDropped(t *testing.T) {
	spec := webSpec()
	spec.Probes = [core.NumProbes]*core.ProbeSpec{core.Liveness: tcpProbe(1, time.Second, 1)}
	playDropped(t, spec, func(h *harness, others int) {
		if others > 0 {
			t.Errorf("the probe was asked %d times while it was under way", others)
		}
		if last := h.view("c1").State.Health.Probes[core.Liveness].Last; last.Output != "present" {
			t.Errorf("the last result is %+v", last)
		}
	})
}

func TestHookFromBeforeTheContainerWasDropped(t *testing.T) {
	spec := webSpec()
	spec.Probes = [core.NumProbes]*core.ProbeSpec{}
	spec.Lifecycle.PostStart = &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{"warm-up"}}}
	playDropped(t, spec, func(h *harness, _ int) {
		if v := h.view("c1"); !v.State.Conditions.Started.Status || len(h.engine.calls()) > 0 {
			t.Errorf("started: %v, calls: %q, events: %q", v.State.Conditions.Started.Status, h.engine.calls(), h.journal.reasons("n-c1"))
		}
	})
}

// A reload drops a container that has ended with its engine as soon as it turns out that nobody wants it started. Nothing
// more is decided about it then, and it is counted no longer.
func TestDroppedWhenItsEngineIsBack(t *testing.T) {
	play(t, plainSpec(core.Always), func(h *harness) {
		h.engine.run("c1")
		h.engine.run("c2")
		time.Sleep(time.Minute)
		h.event(runtime.Lost, "", 0)
		h.engine.endRun("c1", 0)
		time.Sleep(10 * time.Minute)
		h.engine.endRun("c2", 0)
		h.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart})
		for _, id := range []string{"c1", "c2"} {
			h.engine.deliver(h.engine.observation(id))
		}
		h.reload(map[string]*core.Spec{"": plainSpec(core.Always), "n-c1": nil})
		if _, err := h.Board().Find("c1"); err != nil {
			h.t.Fatalf("dropped before its restart was decided: %v", err)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
		synctest.Wait()
		if _, err := h.Board().Find("c1"); err == nil {
			h.t.Error("it was not dropped")
		}
		if got, want := h.Board().Counts(), walked(h.Board()); got != want {
			h.t.Errorf("counts %+v, want %+v", got, want)
		}
		if calls := h.engine.calls(); slices.Contains(calls, "start c1") {
			h.t.Errorf("calls %q", calls)
		}
	})
}
