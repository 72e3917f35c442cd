package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// One that was stopped counts as down in its group for as long as the one that takes its place may need to
// become ready.
func TestManagedElsewhereInAGroup(t *testing.T) {
	spec := slowReadySpec(core.Group{Name: "web"})
	spec.ManagedElsewhere, spec.RestartPolicy, spec.OnFailure = "Docker Swarm", core.Never, core.StopFailed
	play(t, spec, func(h *harness) {
		h.engine.run("a")
		h.engine.run("b")
		h.engine.run("c")
		pass(time.Minute)
		h.failLiveness("a", "b", "c")
		var stops []time.Time
		for range 60 { // each stop is seen up to a second late
			pass(time.Second)
			for len(stops) < len(h.engine.calls()) {
				stops = append(stops, time.Now())
			}
		}
		apart := spec.TimeToReady() - time.Second
		if len(stops) != 3 || stops[1].Sub(stops[0]) < apart || stops[2].Sub(stops[1]) < apart {
			h.t.Errorf("stops at %v, want three, %v apart at least", stops, apart)
		}
	})
}

// What another orchestrator manages is stopped one after the other, as the budget allows, and never started:
// not for a person either.
func TestManagedElsewhere(t *testing.T) {
	spec := slowReadySpec(core.Group{})
	spec.ManagedElsewhere, spec.RestartPolicy, spec.OnFailure = "Docker Swarm", core.Never, core.StopFailed
	playWith(t, spec, func(c *Config) { c.Guard = core.Guard{MaxRestarts: 1, Window: time.Hour} }, func(h *harness) {
		h.sendSynced()
		h.engine.run("a")
		h.engine.run("b")
		synctest.Wait()
		err := h.Restart(h.t.Context(), "n-a")
		if !errors.Is(err, ErrManagedElsewhere) || !strings.Contains(fmt.Sprint(err), "ask Docker Swarm") {
			h.t.Errorf("restart: %v", err)
		}
		h.failLiveness("a", "b")
		pass(30 * time.Minute)
		if got := h.engine.calls(); len(got) != 1 || !strings.HasPrefix(got[0], "stop ") {
			h.t.Errorf("calls %v, want one stop: the other waits for the budget", got)
		}
		pass(2 * time.Hour)
		calls := h.engine.calls()
		if slices.ContainsFunc(calls, func(c string) bool { return !strings.HasPrefix(c, "stop ") }) || len(calls) != 2 {
			h.t.Errorf("calls %v, want two stops", calls)
		}
		for _, name := range []string{"a", "b"} {
			if s := h.view(name).State; s.Run.Exit.Reason != core.ReasonManagedElsewhere || s.Action.Restart != core.NoCause {
				h.t.Errorf("%s ended with %+v, restart for %v", name, s.Run.Exit, s.Action.Restart)
			}
		}
		if err := h.Restart(h.t.Context(), "n-a"); !errors.Is(err, ErrManagedElsewhere) {
			h.t.Errorf("restart after the end: %v", err)
		}
	})
}
