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
	if !sim.state.Engine.State.Alive() || sim.state.OperatorStopped() || !sim.state.Lasting.Held() {
		t.Errorf("left stopped:\n%s", sim.transcript.String())
	}
}

// Each holder's hold is its own: the container is held while one of them holds it, and the end of one ends no other.
func TestHoldsBelongToTheirHolders(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string // of a container that has ended
	}{
		{"the fleet's ends", []string{"10s fleet-holds a", "60s fleet-holds"}, "ready restarts:1"},
		{"a person's outlives the fleet's", []string{"10s fleet-holds a", "15s hold", "60s fleet-holds"}, "Held"},
		{"a person's is there before the fleet's", []string{"10s hold", "15s fleet-holds a", "60s fleet-holds"}, "Held"},
		{"a person's ends by its time, the fleet's goes on", []string{"10s fleet-holds a", "15s hold 30s"}, "Held"},
		{"a resume here ends both", []string{"10s fleet-holds a", "15s hold", "60s resume"}, "ready restarts:1"},
		{"a resume here lasts as long as that hold", []string{"10s fleet-holds a", "12s resume", "15s fleet-holds a"}, "ready restarts:1"},
		{"another hold comes after a resume here", []string{"10s fleet-holds a", "12s resume", "15s fleet-holds b"}, "Held"},
		{"a new daemon", []string{"10s fleet-holds a", "15s hold 30s", "17s daemon-killed"}, "Held"},
		{"a new daemon, and then its end", []string{"10s fleet-holds a", "17s daemon-killed", "60s fleet-holds"}, "ready restarts:1"},
	} {
		sim := simulate(t, "0s runs")
		for _, line := range tt.lines {
			if sim.c.State.Alive() && !strings.HasPrefix(line, "1") {
				sim.play("20s exits 1")
			}
			sim.play(line)
		}
		if sim.c.State.Alive() && sim.state.RestartCount() == 0 {
			sim.play("20s exits 1")
		}
		sim.play("3m")
		if sim.writeTranscript("at the end", nil); !strings.Contains(sim.lastStatus, tt.want) {
			t.Errorf("%s: want %s\n%s", tt.name, tt.want, sim.transcript.String())
		}
	}
}

// The end of a hold ends the hold only: what is given up waits for a person, who ends both.
func TestFleetHoldOfWhatIsGivenUp(t *testing.T) {
	sim := simulate(t, givenUp...)
	sim.play("60s fleet-holds a", "70s fleet-holds", "10m")
	if !sim.state.Action.GaveUp || sim.c.State.Alive() {
		t.Errorf("started:\n%s", sim.transcript.String())
	}
	sim.play("11m fleet-holds b", "12m resume", "13m")
	if !sim.c.State.Alive() {
		t.Errorf("not started:\n%s", sim.transcript.String())
	}
}
