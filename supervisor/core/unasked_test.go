package core

import (
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// A probe that cannot be asked any more is shown as that, whatever it found before. Its verdict and its count stay.
func TestUnaskedProbe(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &ProbeSpec{SuccessThreshold: 1, FailureThreshold: 3, Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80}}}
	v := &View{
		Container: &runtime.Container{State: runtime.Running, StopTimeout: -1, Address: "10.0.0.1"},
		Spec:      &Spec{Probes: [NumProbes]*ProbeSpec{Liveness: p}}, State: NewState(),
	}
	v.State.Engine.State = runtime.Running
	y := &v.State.Health.Probes[Liveness]
	unknown := prober.Result{Outcome: prober.Unknown, Cause: prober.NotAsked, Output: "too many open files\nmore", Latency: time.Second}
	for i, step := range []struct {
		result  prober.Result
		outcome prober.Outcome
		run     int
		since   time.Duration
		warned  bool
	}{
		{prober.Result{Outcome: prober.Success}, prober.Success, 1, 0, false},
		{prober.Result{Outcome: prober.Success}, prober.Success, 2, 0, false},
		{unknown, prober.Unknown, 1, 19 * time.Second, false},
		{unknown, prober.Unknown, 2, 19 * time.Second, false},
		{unknown, prober.Unknown, 3, 19 * time.Second, true},
		{prober.Result{Outcome: prober.Success}, prober.Success, 3, 0, false},
		{unknown, prober.Unknown, 1, 59 * time.Second, false},
		{unknown, prober.Unknown, 2, 59 * time.Second, false},
		{prober.Result{Outcome: prober.Unknown, Cause: prober.Pending}, prober.Unknown, 3, 59 * time.Second, false},
		{prober.Result{Outcome: prober.Failure}, prober.Failure, 1, 90 * time.Second, false},
	} {
		y.add(p, step.result, now.Add(time.Duration(i)*10*time.Second))
		outcome, run, since := y.Newest()
		if outcome != step.outcome || run != step.run || since.Sub(now) != step.since {
			t.Errorf("step %d: %v %d since %v, want %+v", i, outcome, run, since.Sub(now), step)
		}
		const text = "its liveness probe has been Unknown 3 times in a row, since 1970-01-01T00:16:59Z: too many open files"
		if all := strings.Join(v.Warnings(), "; "); all != "" != step.warned || step.warned && all != text {
			t.Errorf("step %d: warned %q, want %v", i, all, step.warned)
		}
	}
}
