package core

import (
	"strings"
	"testing"
)

// What the network's new run asks for no probe has said: it is asked for again when the
// hold is over, and waits for nobody then.
func TestHoldDuringARestartForTheNetwork(t *testing.T) {
	w := tale(t, "drain=30s", "0s network started", "1s runs", "90s network started", "95s hold")
	if s := &w.state; s.Action.Stopping != NoCause || s.Health.Failed != NoCause || !s.Conditions.Ready.Status {
		t.Errorf("held during the drain: %+v", s)
	}
	w.goesOn("100s limit other", "200s resume", "300s")
	if s := &w.state; s.Lasting.Restarts[ByNetwork] != 1 || !s.Conditions.Ready.Status || strings.Contains(w.told.String(), "post_start") {
		t.Errorf("told:\n%s", w.told.String())
	}
}

// A stop that failed may still be carried out, and a start must follow then.
func TestHoldAfterAFailedStop(t *testing.T) {
	w := tale(t, "liveness=0s/1s/1/1", "0s runs", "500ms stop-fails yes", "500ms liveness fails", "2s")
	if w.state.Action.StopCalls != 1 || w.state.Action.Call != NoCall {
		t.Fatalf("no stop has failed: %+v", w.state)
	}
	w.step("hold", &Input{Kind: HoldRequested})
	w.endRun(143) // it is carried out late
	w.step("exits", &Input{Kind: Observed})
	w.goesOn("2s liveness succeeds", "1m")
	if !w.state.Engine.State.Alive() || w.state.OperatorStopped() || !w.state.Lasting.Held {
		t.Errorf("left stopped:\n%s", w.told.String())
	}
}
