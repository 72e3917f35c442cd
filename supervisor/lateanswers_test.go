package supervisor

import (
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
