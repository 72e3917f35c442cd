package metrics

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/prober"
	"healthd/supervisor/core"
)

// values returns a container's metrics of that name, by the label's value.
func values(t *testing.T, v *core.View, metric, label string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(board(v), "v1"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label {
					all[l.GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}

// Verdicts as numbers: 1 for success and 0 for all else. What is not known to be
// ready takes no traffic, so there is no third value.
func TestVerdictsAsNumbers(t *testing.T) {
	for outcome, want := range map[prober.Outcome]float64{prober.Success: 1, prober.Failure: 0, prober.Unknown: 0} {
		t.Run(outcome.String(), func(t *testing.T) {
			t.Attr("kubelet", "171")
			v, good := web("web-1", "a"), outcome == prober.Success
			v.State.Health.Probes[core.Startup].Result, v.State.Health.Probes[core.Readiness].Result = outcome, outcome
			v.State.Conditions.Started.Status, v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = good, good, good
			for _, metric := range []string{"healthd_container_ready", "healthd_container_started"} {
				if got, ok := values(t, v, metric, "container")["web-1"]; !ok || got != want {
					t.Errorf("%s %v, there %v; want %v", metric, got, ok, want)
				}
			}
		})
	}
}

// Outcomes are counted by name.
func TestOutcomesAreCountedByName(t *testing.T) {
	for outcome, name := range map[prober.Outcome]string{prober.Success: "successful", prober.Failure: "failed", prober.Unknown: "unknown"} {
		t.Run(name, func(t *testing.T) {
			t.Attr("kubelet", "171")
			v := web("web-1", "a")
			v.State.Totals.Outcomes[core.Liveness] = [3]uint32{}
			v.State.Totals.Outcomes[core.Liveness][outcome] = 7
			want := map[string]float64{"successful": 0, "failed": 0, "unknown": 0}
			want[name] = 7
			for _, metric := range []string{"healthd_probe_total", "prober_probe_total"} {
				if got := values(t, v, metric, "result"); !maps.Equal(got, want) {
					t.Errorf("%s: %v, want %v", metric, got, want)
				}
			}
		})
	}
}

// Each cause that core counts restarts by is a reason, so that none is left out of the sum.
func TestRestartsOfEachCause(t *testing.T) {
	v := web("web-1", "a")
	want := map[string]float64{}
	for i := range v.State.Lasting.Restarts {
		v.State.Lasting.Restarts[i] = i
		if cause := core.Cause(i); cause != core.NoCause {
			want[cause.String()] = float64(i)
		}
	}
	if got := values(t, v, "healthd_container_restarts_total", "reason"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
