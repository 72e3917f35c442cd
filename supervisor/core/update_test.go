package core

import (
	"strings"
	"testing"
	"time"
)

// An end that nobody saw is told by the event that came before.
func TestUnseenEndKeepsItsExitCode(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"engine-policy=always", "0s runs"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	w.now = w.now.Add(time.Second)
	w.step("", &Input{Kind: Died, ExitCode: 3})
	w.startRun() // by the engine, at once
	w.step("", &Input{Kind: Observed})
	if e := w.state.Run.LastExit; e.Code != 3 || e.Reason != ReasonError || w.state.Lasting.Restarts[ByExit] != 1 {
		t.Errorf("last exit %+v, restarts %v", e, w.state.Lasting.Restarts)
	}
}
