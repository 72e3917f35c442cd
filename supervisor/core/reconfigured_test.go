package core

import (
	"slices"
	"strings"
	"testing"
)

var (
	inBackoff = []string{"0s runs", "5s exits 1", "10s exits 1", "12s"}
	givenUp   = []string{"give-up=2/1h", "0s runs", "5s exits 1", "10s exits 1", "30s exits 1", "40s"}
	inDrain   = []string{"liveness=0s/10s/1/1 drain=10s", "0s runs", "5s liveness fails", "12s"}
)

// A daemon that comes with another configuration does what a reload does, whatever the last one was about to do.
func TestRestartWithAnotherSpecIsAReload(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  []string // lines of a story
		changes string
		after   []string
		want    string // of the end
	}{
		{"the startup probe is taken out", []string{"startup=0s/10s/1/9 liveness=0s/5s/1/2", "0s startup fails", "0s runs", "15s"}, "startup=none", nil, "Running ready"},
		{"a startup probe comes in", []string{"0s runs"}, "startup=0s/10s/1/3", []string{"20s startup fails"}, "Running ready"},
		{"the readiness probe is taken out", []string{"readiness=0s/5s/1/1", "0s readiness fails", "0s runs", "15s"}, "readiness=none", nil, "Running ready"},
		{"a readiness probe comes in, and fails", []string{"0s readiness fails", "0s runs", "15s"}, "readiness=0s/5s/1/1", nil, "Running not-ready:ReadinessFailed"},
		{"a gate comes in", []string{"0s runs", "15s"}, "gates=warm", nil, "Running not-ready:ReadinessGatesNotReady"},
		{"a hook that waits for its turn is taken out", []string{"post-start=1s", "0s post-start cannot", "0s runs", "5s"}, "post-start=none", nil, "Running ready"},
		{"a hook that runs is taken out", []string{"post-start=1h", "0s post-start fails", "0s runs", "5s"}, "post-start=none", nil, "Running ready"},
		{"a hook that has failed is taken out", []string{"post-start=1s", "0s post-start fails", "0s limit other", "0s runs", "5s"}, "post-start=none", nil, "Running ready"},
		{"give_up is taken out", givenUp, "give-up=0/0s", nil, "Running ready restarts:3"},
		{"give_up allows more", givenUp, "give-up=3/1h", nil, "Running ready restarts:3"},
		{"give_up allows more within less", givenUp, "give-up=2/22s", nil, "Running ready restarts:3"},
		{"give_up allows less", givenUp, "give-up=1/1h", nil, "Failed GaveUp not-ready:NotRunning restarts:2"},
		{"nothing changes, after a long time", append(slices.Clone(givenUp), "3h"), "give-up=2/1h", []string{"4h"}, "Failed GaveUp not-ready:NotRunning restarts:2"},
		{"Never, when it is given up", givenUp, "policy=Never", []string{"2h resume"}, "Failed not-ready:NotRunning restarts:2"},
		{"Never, when it is held", []string{"0s runs", "5s hold", "10s exits 1"}, "policy=Never", []string{"60s resume"}, "Failed not-ready:NotRunning"},
		{"Never, in a back-off", inBackoff, "policy=Never", nil, "Failed not-ready:NotRunning restarts:1"},
		{"OnFailure, when it is held", []string{"0s runs", "5s hold", "10s exits 0"}, "policy=OnFailure", []string{"60s resume"}, "Succeeded not-ready:NotRunning"},
		{"a shorter back-off", inBackoff, "backoff=1s/2s/10m", []string{"15s"}, "Running ready restarts:2"},
		{"only observed, in a back-off", inBackoff, "observe=yes", nil, "Failed not-ready:NotRunning restarts:1"},
		{"only observed, in a drain", inDrain, "observe=yes", nil, "Running WouldRestart ready"},
		{"only observed, in a drain, and well again", inDrain, "observe=yes", []string{"20s liveness succeeds", "3m"}, "Running ready"},
		{"only observed, in a pre_stop hook", append([]string{"pre-stop=5s"}, inDrain...), "observe=yes", []string{"70s"}, "Running WouldRestart ready"},
		{"the liveness probe is taken out, in a drain", inDrain, "liveness=none", nil, "Running ready restarts:1"},
		{"on_failure stop, in a drain", inDrain, "on-failure=stop", nil, "Succeeded not-ready:NotRunning"},
		{"all load balancers are told at once", []string{"liveness=0s/10s/1/1 drain=5s withdraw-within=1h", "0s runs", "5s liveness fails", "12s"},
			"withdraw-within=0s", []string{"15s liveness succeeds", "20s"}, "Running ready restarts:1"},
	} {
		for _, event := range []string{"reload", "reconfigured"} {
			t.Run(tt.name+" by "+event, func(t *testing.T) {
				sim := simulate(t, tt.before...)
				sim.playNow(event + " " + tt.changes)
				sim.play(tt.after...)
				if len(tt.after) == 0 {
					sim.play("3m")
				}
				if sim.writeTranscript("at the end", nil); !strings.HasSuffix(sim.transcript.String(), "-> "+tt.want+"\n") {
					t.Errorf("want %s\n%s", tt.want, sim.transcript.String())
				}
			})
		}
	}
}

// checkSameAsReload fails unless the next daemon begins with what a reload would have made of what the journal keeps.
func (sim *simulation) checkSameAsReload(old *Spec) {
	next, _ := sim.memory().State(sim.spec, &sim.c, sim.now, &Room{})
	var room Room
	reloaded := room.begin(&sim.state, sim.spec, &sim.c, sim.now)
	reloaded.recallCall()
	reloaded.changeSpec(old)
	reloaded.recallHooks()
	want, got := reloaded.kept, *next.Kept
	want.Engine.State, want.Run.BeganAt = got.Engine.State, got.Run.BeganAt // the observation that follows tells
	if got != want || !slices.Equal(next.Restarted, reloaded.Restarted) {
		sim.t.Fatalf("%v: with %+v in place of %+v the next daemon begins with\n%+v, want\n%+v", sim.now.Sub(sim.start), sim.spec, old, got, want)
	}
}
