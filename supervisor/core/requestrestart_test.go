package core

import (
	"strings"
	"testing"
	"time"
)

// A restart that somebody asks for in the middle of a docker stop is the newer wish:
// what that stop still does is no other.
func TestRestartAskedDuringAStop(t *testing.T) {
	sim := newSimulation(t)
	sim.noTranscript, sim.stopTakes = true, time.Hour
	for _, line := range []string{"0s runs", "10s signalled 15", "15s restart-asked", "20s signalled 9"} {
		if err := sim.playLine(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	sim.endRun(137)
	sim.step("", &Input{Kind: Observed})
	if s := &sim.state; s.OperatorStopped() || s.Action.Restart != ByOperator {
		t.Errorf("stopped by an operator: %v, to be started: %v", s.OperatorStopped(), s.Action.Restart)
	}
}
