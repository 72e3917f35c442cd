package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// The board has the results of a container from its first observation to its removal.
func TestResultsOnTheBoard(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		stage   int // 0: never seen, 1: runs, 2: runs and is removed
		want    prober.Outcome
	}{
		{"never set", "165", 0, prober.Unknown},
		{"set", "166", 1, prober.Success},
		{"removed", "167", 2, prober.Unknown},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				synctest.Test(t, func(t *testing.T) {
					h, _ := newCountingHarness(t, probesSpec(time.Second, probe))
					defer h.close()
					h.engine.run("other")
					if tt.stage > 0 {
						h.engine.run("cafe0001")
					}
					time.Sleep(1500 * time.Millisecond)
					if tt.stage > 1 {
						h.reportRemoved("cafe0001")
					}
					synctest.Wait()
					wantResult(t, h, probe, tt.want)
				})
			})
		}
	}
}

// wantResult checks a probe's result by all names of its container. Unknown means that
// there must be no container.
func wantResult(t *testing.T, h *harness, probe core.ProbeType, want prober.Outcome) {
	t.Helper()
	for _, name := range []string{"n-cafe0001", "cafe0001", "cafe"} {
		v, err := h.Board().Find(name)
		found := err == nil
		if found != (want != prober.Unknown) || found && v.State.Health.Probes[probe].Result != want {
			t.Errorf("%s: %+v, %v; want %s", name, v, err, want)
		}
		if _, err := h.Ask(t.Context(), name, probe); errors.Is(err, ErrUnknownContainer) == found {
			t.Errorf("%s: found %v, but asking it says %v", name, found, err)
		}
	}
	if v := h.Board().Views()[len(h.Board().Views())-1]; v.Container.ID != "other" || v.State.Health.Probes[probe].Result != prober.Success {
		t.Errorf("the other container: %+v", v)
	}
}

// A first or changed verdict is recorded. The board shows it at once.
func TestResultEvents(t *testing.T) {
	never := prober.Result{Cause: prober.Pending, Output: "not decided yet"}
	good := prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
	for _, tt := range []struct {
		name    string
		kubelet string
		probe   core.ProbeType
		before  prober.Result
		answer  prober.Result
		want    []string
	}{
		{"first success of readiness", "168", core.Readiness, never, good, []string{core.EventReady}},
		{"first failure of readiness", "168", core.Readiness, never, refused, []string{core.EventUnhealthy}},
		{"first success of startup", "168", core.Startup, never, good, []string{core.EventReady}},
		{"first failure of startup", "168", core.Startup, never, refused, []string{core.EventUnhealthy, core.EventKilling}},
		{"first failure of liveness", "168", core.Liveness, never, refused, []string{core.EventUnhealthy, core.EventKilling, core.EventNotReady}},
		{"readiness succeeds again", "169", core.Readiness, good, good, nil},
		{"readiness fails again", "169", core.Readiness, refused, refused, nil},
		{"liveness succeeds again", "169", core.Liveness, good, good, nil},
		{"readiness fails after success", "170", core.Readiness, good, refused, []string{core.EventUnhealthy, core.EventNotReady}},
		{"readiness succeeds after failure", "170", core.Readiness, refused, good, []string{core.EventReady}},
		{"liveness fails after success", "170", core.Liveness, good, refused, []string{core.EventUnhealthy, core.EventKilling, core.EventNotReady}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			synctest.Test(t, func(t *testing.T) {
				spec := probesSpec(time.Second, tt.probe)
				spec.Publish.Drain = time.Hour
				h, _ := newCountingHarness(t, spec)
				defer h.close()
				key := fmt.Sprintf("c1:%d", tt.probe+1)
				h.probes.setResult(key, tt.before)
				h.engine.run("c1")
				pass(500 * time.Millisecond)
				old, before := h.view("c1"), len(h.journal.reasons("n-c1"))
				h.probes.setResult(key, tt.answer)
				asked := h.probes.timesAsked(key)
				pass(10 * time.Second)
				v := h.view("c1")
				if got := h.journal.reasons("n-c1")[before:]; !slices.Equal(got, tt.want) {
					t.Errorf("events %v, want %v", got, tt.want)
				}
				if v == old || v.State.Health.Probes[tt.probe].Result != tt.answer.Outcome || v.State.Health.Probes[tt.probe].Last != tt.answer || h.probes.timesAsked(key) == asked {
					t.Errorf("on the board: %+v", v.State.Health.Probes[tt.probe])
				}
				ready, reason, message := v.Readiness()
				if ready != (tt.answer.Outcome == prober.Success) || !ready && tt.probe == core.Readiness && (reason != core.NotReadyReadiness || message != refused.Output) {
					t.Errorf("ready %v %s %s", ready, reason, message)
				}
			})
		})
	}
}

func TestOutcomeString(t *testing.T) {
	for outcome, want := range map[prober.Outcome]string{
		prober.Success: "Success", prober.Failure: "Failure", prober.Unknown: "Unknown", prober.Failure + 1: "Unknown",
	} {
		t.Run(fmt.Sprintf("%s of %d", want, outcome), func(t *testing.T) {
			t.Attr("kubelet", "172")
			if got := outcome.String(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
