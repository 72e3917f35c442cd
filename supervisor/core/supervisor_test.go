package core

import (
	"strings"
	"testing"
	"time"

	"healthd/prober"
)

// The run that our start call makes is stopped by somebody, and the news of that
// comes before the run is seen.
func TestKillOfARunNotSeenYet(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"liveness=0s/10s/1/1 drain=30s", "0s runs", "5s liveness fails", "20s exits 1"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if w.state.Action.Call != StartCall {
		t.Fatalf("no start is under way:\n%s", w.told.String())
	}
	clear(w.pending)
	w.answers[Liveness] = prober.Result{Outcome: prober.Success}
	w.now = w.now.Add(time.Millisecond)
	w.startRun()
	w.now = w.now.Add(time.Millisecond)
	w.step("docker stop", &Input{Kind: Signalled, Signal: 15, Time: w.now})
	w.step("", &Input{Kind: CallReturned, Call: StartCall})
	w.endRun(143)
	w.step("exits 143", &Input{Kind: Observed})
	if !w.state.OperatorStopped() || w.state.Lasting.Restarts[ByLiveness] != 1 {
		t.Errorf("the operator's stop or our restart is lost: %v\n%s", w.state.Lasting.Restarts, w.told.String())
	}
}
