package core

import (
	"strings"
	"testing"
)

// A hold cancels the restart for a new network. After the hold healthd begins it again, and
// it does not wait for the group, because no probe failed.
func TestHoldDuringNetworkRestart(t *testing.T) {
	sim := simulate(t, "drain=30s", "0s network started", "1s runs", "90s network started", "95s hold")
	if s := &sim.state; s.Action.Stopping != NoCause || s.Health.Failed != NoCause || !s.Conditions.Ready.Status {
		t.Errorf("held during the drain: %+v", s)
	}
	sim.play("100s limit other", "200s resume", "300s")
	if s := &sim.state; s.Lasting.Restarts[ByNetwork] != 1 || !s.Conditions.Ready.Status || strings.Contains(sim.transcript.String(), "post_start") {
		t.Errorf("transcript:\n%s", sim.transcript.String())
	}
}

// The engine may still carry out a stop call that failed. Then a start must follow.
func TestHoldAfterFailedStop(t *testing.T) {
	sim := simulate(t, "liveness=0s/1s/1/1", "0s runs", "500ms stop-fails yes", "500ms liveness fails", "2s")
	if sim.state.Action.StopCalls != 1 || sim.state.Action.Call != NoCall {
		t.Fatalf("no stop has failed: %+v", sim.state)
	}
	sim.step("hold", &Input{Kind: HoldRequested})
	sim.endRun(143) // the engine carries out the stop late
	sim.step("exits", &Input{Kind: Observed})
	sim.play("2s liveness succeeds", "1m")
	if !sim.state.Engine.State.Alive() || sim.state.OperatorStopped() || !sim.state.Lasting.Held {
		t.Errorf("left stopped:\n%s", sim.transcript.String())
	}
}
