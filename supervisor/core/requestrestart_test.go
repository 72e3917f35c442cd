package core

import (
	"testing"
	"time"

	"healthd/runtime"
)

// `healthd restart` during a docker stop overrules it. The KILL of that docker stop is no
// new stop.
func TestRestartRequestedDuringStop(t *testing.T) {
	sim := newSimulation(t)
	sim.noTranscript, sim.stopTakes = true, time.Hour
	sim.play("0s runs", "10s signalled 15", "15s restart-asked", "20s signalled 9")
	sim.endRun(137)
	sim.step("", &Input{Kind: Observed})
	if s := &sim.state; s.OperatorStopped() || s.Action.Restart != ByOperator {
		t.Errorf("stopped by an operator: %v, to be started: %v", s.OperatorStopped(), s.Action.Restart)
	}
}

// A process that ends as its stop signal says has done nothing wrong, whoever asked healthd to send it.
func TestReasonOfAStopThatSomebodyAskedFor(t *testing.T) {
	for _, tt := range []struct {
		stopping Cause
		signal   string
		code     int
		want     string
	}{
		{ByOperator, "", 143, ReasonCompleted},
		{ByNetwork, "", 143, ReasonCompleted},
		{ByOperator, "QUIT", 131, ReasonCompleted},
		{ByOperator, "QUIT", 143, ReasonError},
		{ByOperator, "", 137, ReasonError}, // the grace period was too short
		{ByOperator, "", 1, ReasonError},
		{NoCause, "", 143, ReasonError},
		{ByLiveness, "", 143, ReasonLivenessFailed},
	} {
		s := stepper{State: State{Kept: &Kept{Action: Action{Stopping: tt.stopping}}}, c: &runtime.Container{StopSignal: tt.signal}}
		if got := s.exit(tt.code).Reason; got != tt.want {
			t.Errorf("stopped %v with %q, exit code %d: %s, want %s", tt.stopping, tt.signal, tt.code, got, tt.want)
		}
	}
}
