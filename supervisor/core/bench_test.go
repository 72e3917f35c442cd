package core

import (
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// BenchmarkStep is one success of a liveness probe, the most frequent step.
func BenchmarkStep(b *testing.B) {
	spec, now := webSpec(), time.Now()
	c := &runtime.Container{ID: "c1", Name: "web", State: runtime.Running, StartedAt: now, StopTimeout: -1}
	s := NewState()
	var room Room
	s, _ = Step(spec, c, &s, &Input{Kind: Observed}, now, &room)
	in := &Input{Kind: ProbeAnswered, Probe: Liveness, Result: prober.Result{Outcome: prober.Success, Latency: time.Millisecond}}
	b.ReportAllocs()
	for b.Loop() {
		s.Health.Probes[Liveness].Running = true
		s, _ = Step(spec, c, &s, in, now, &room)
	}
}

// BenchmarkAdd counts one result.
func BenchmarkAdd(b *testing.B) {
	p, y, now := probeOn(1, time.Second, 3), ProbeState{}, time.Now()
	r := prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		y.add(p, r, now)
	}
}

func probeOn(port int, period time.Duration, failures int) *ProbeSpec {
	return &ProbeSpec{
		Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: port}}, Period: period, Timeout: time.Second,
		SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// webSpec returns a spec with liveness on port 1 and readiness on port 2.
func webSpec() *Spec {
	return &Spec{
		Name: "web", RestartPolicy: Always,
		Probes:  [NumProbes]*ProbeSpec{Liveness: probeOn(1, 10*time.Second, 3), Readiness: probeOn(2, 5*time.Second, 1)},
		Backoff: Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: DefaultBackoffReset},
		Publish: Publish{Service: "web", Drain: 5 * time.Second},
	}
}
