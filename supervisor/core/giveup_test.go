package core

import (
	"strings"
	"testing"
)

// A container that is given up while it runs stays so until it recovers or somebody resumes or starts it, whatever comes
// between. Its last restart is then long ago.
func TestGivenUpWhileItRuns(t *testing.T) {
	const stays, recovered = "Running GaveUp ready restarts:1", "Running ready restarts:1"
	for _, tt := range []struct {
		name    string
		between []string // from 40s on
		want    string
	}{
		{"nothing", nil, stays},
		{"its engine is away", []string{"40s engine-lost", "2h engine-back"}, stays},
		{"it is paused", []string{"40s paused", "2h unpaused"}, stays},
		{"it survives a signal", []string{"2h signalled 15"}, stays},
		{"it is held, and resumed", []string{"40s hold", "2h resume"}, "Running GaveUp ready restarts:2"},
		{"another daemon", []string{"2h daemon-killed"}, stays},
		{"another daemon, twice", []string{"1h daemon-killed", "2h daemon-killed"}, stays},
		{"another liveness probe", []string{"2h reload liveness=0s/20s/1/1"}, stays},
		{"another liveness probe in another daemon", []string{"2h reconfigured liveness=0s/20s/1/1"}, stays},
		{"another daemon, and it recovers", []string{"2h liveness succeeds", "2h daemon-killed"}, recovered},
		{"it recovers while its engine is away", []string{"40s engine-lost", "1h liveness succeeds", "2h engine-back"}, recovered},
		{"no liveness probe any more", []string{"2h reload liveness=none"}, recovered},
		{"no liveness probe any more in another daemon", []string{"2h reconfigured liveness=none"}, recovered},
		{"no liveness probe any more while its engine is away", []string{"40s engine-lost", "1h reload liveness=none", "2h engine-back"}, recovered},
		{"failures are only told", []string{"2h reload on-failure=none"}, recovered},
		{"failures are only told by another daemon", []string{"2h reconfigured on-failure=none"}, recovered},
		{"it ends by itself while its engine is away", []string{"40s engine-lost", "2h exits 1", "2h engine-back"}, "Failed GaveUp not-ready:NotRunning restarts:1"},
		{"an operator stops it", []string{"2h docker-stop"}, "Failed not-ready:NotRunning restarts:1"},
		{"an operator restarts it, and it fails again", []string{"2h restart-asked"}, "Running GaveUp ready restarts:3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := simulate(t, "give-up=1/1h liveness=0s/10s/1/1", "0s runs", "5s liveness fails", "30s")
			sim.play(tt.between...)
			sim.play("3h")
			if sim.writeTranscript("at the end", nil); !strings.HasSuffix(sim.transcript.String(), "-> "+tt.want+"\n") {
				t.Errorf("want %s\n%s", tt.want, sim.transcript.String())
			}
		})
	}
}
