package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

func TestReadinessComesAndGoes(t *testing.T) {
	t.Attr("kubelet", "162")
	synctest.Test(t, func(t *testing.T) {
		h, _ := newCountingHarness(t, probesSpec(time.Second, core.Readiness))
		defer h.close()
		h.engine.run("c1")
		for _, tt := range []struct {
			answer prober.Result
			want   bool
		}{{prober.Result{Outcome: prober.Success}, true}, {refused, false}, {prober.Result{Outcome: prober.Success}, true}} {
			h.probes.setResult("c1:3", tt.answer)
			pass(time.Second + time.Millisecond)
			if ready, reason, _ := h.view("c1").Readiness(); ready != tt.want {
				t.Errorf("the probe says %s, ready %v %s", tt.answer.Outcome, ready, reason)
			}
		}
		if calls := h.engine.calls(); len(calls) != 0 {
			t.Errorf("calls %v because of readiness", calls)
		}
	})
}
