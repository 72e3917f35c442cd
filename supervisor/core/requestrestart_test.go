package core

import (
	"testing"
	"time"
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
