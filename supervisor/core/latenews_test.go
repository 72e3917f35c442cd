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
	sim := newSimulation(t)
	for _, line := range []string{"liveness=0s/10s/1/1 drain=30s", "0s runs", "5s liveness fails", "20s exits 1"} {
		if err := sim.playLine(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if sim.state.Action.Call != StartCall {
		t.Fatalf("no start is under way:\n%s", sim.transcript.String())
	}
	clear(sim.scheduled)
	sim.answers[Liveness] = prober.Result{Outcome: prober.Success}
	sim.now = sim.now.Add(time.Millisecond)
	sim.startRun()
	sim.now = sim.now.Add(time.Millisecond)
	sim.step("docker stop", &Input{Kind: Signalled, Signal: 15, Time: sim.now})
	sim.step("", &Input{Kind: CallReturned, Call: StartCall})
	sim.endRun(143)
	sim.step("exits 143", &Input{Kind: Observed})
	if !sim.state.OperatorStopped() || sim.state.Lasting.Restarts[ByLiveness] != 1 {
		t.Errorf("the operator's stop or our restart is lost: %v\n%s", sim.state.Lasting.Restarts, sim.transcript.String())
	}
}

// An end that nobody saw is told by the event that came before.
func TestUnseenEndKeepsItsExitCode(t *testing.T) {
	sim := newSimulation(t)
	for _, line := range []string{"engine-policy=always", "0s runs"} {
		if err := sim.playLine(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	sim.now = sim.now.Add(time.Second)
	sim.step("", &Input{Kind: Died, ExitCode: 3})
	sim.startRun() // by the engine, at once
	sim.step("", &Input{Kind: Observed})
	if e := sim.state.Run.LastExit; e.Code != 3 || e.Reason != ReasonError || sim.state.Lasting.Restarts[ByExit] != 1 {
		t.Errorf("last exit %+v, restarts %v", e, sim.state.Lasting.Restarts)
	}
}

// An engine that does not say whether a container has survived its signal, and then
// tells of its end, leaves nothing that is due for ever.
func TestLookThatIsNotAnswered(t *testing.T) {
	sim := newSimulation(t)
	sim.noTranscript, sim.inspectionsFail = true, true
	for _, line := range []string{"0s runs", "60s signalled 15", "105s"} {
		if err := sim.playLine(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if sim.state.Checks.InspectAt.IsZero() {
		t.Fatal("nobody has asked")
	}
	sim.step("", &Input{Kind: Died})
	sim.advanceTo(sim.now.Add(time.Hour))
}

// A start that an ending daemon has tried in vain is the next one's.
func TestStartLeftOver(t *testing.T) {
	sim := newSimulation(t)
	sim.spec.RestartPolicy = Always
	for _, line := range [][]string{{"runs"}, {"start-fails", "yes"}, {"exits", "1"}, {"shutdown"}} {
		if err := sim.playEvent(line[0], line[1:]); err != nil {
			t.Fatal(err)
		}
		sim.advanceTo(sim.now.Add(time.Second))
	}
	m := Memory{Facts: Remember(&sim.c, "web", &sim.state)}
	if s := m.State(sim.spec, sim.now); !sim.state.Settled() || s.Action.Restart != ByExit || s.Shutdown.LeftOver {
		t.Errorf("settled %v, recalled %+v", sim.state.Settled(), s)
	}
}
