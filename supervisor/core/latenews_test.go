package core

import (
	"testing"
	"time"

	"healthd/prober"
)

// An operator stops the run that healthd's start call made, and the news of the stop signal
// comes before healthd observes the run.
func TestSignalBeforeFirstObservation(t *testing.T) {
	sim := simulate(t, "liveness=0s/10s/1/1 drain=30s", "0s runs", "5s liveness fails", "20s exits 1")
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
		t.Errorf("the operator's stop or healthd's restart is lost: %v\n%s", sim.state.Lasting.Restarts, sim.transcript.String())
	}
}

// The engine starts the container again before healthd can inspect its end: the exit code
// comes from the event.
func TestExitCodeOfUnobservedEnd(t *testing.T) {
	sim := simulate(t, "engine-policy=always", "0s runs")
	sim.now = sim.now.Add(time.Second)
	sim.step("", &Input{Kind: Died, ExitCode: 3})
	sim.startRun() // by the engine, at once
	sim.step("", &Input{Kind: Observed})
	if e := sim.state.Run.LastExit; e.Code != 3 || e.Reason != ReasonError || sim.state.Lasting.Restarts[ByExit] != 1 {
		t.Errorf("last exit %+v, restarts %v", e, sim.state.Lasting.Restarts)
	}
}

// The engine does not answer whether a run has survived its stop signal, and then tells its
// end: no tick stays due for ever.
func TestUnansweredInspection(t *testing.T) {
	sim := newSimulation(t)
	sim.noTranscript, sim.inspectionsFail = true, true
	sim.play("0s runs", "60s signalled 15", "105s")
	if sim.state.Checks.InspectAt.IsZero() {
		t.Fatal("healthd has not asked for an inspection")
	}
	sim.step("", &Input{Kind: Died})
	sim.advanceTo(sim.now.Add(time.Hour))
}

// A daemon that shuts down leaves a start that failed to the next daemon.
func TestStartLeftOver(t *testing.T) {
	sim := newSimulation(t)
	sim.spec.RestartPolicy = Always
	for _, event := range []string{"runs", "start-fails yes", "exits 1", "shutdown"} {
		sim.playNow(event)
		sim.advanceTo(sim.now.Add(time.Second))
	}
	m := Memory{Facts: Remember(&sim.c, "web", &sim.state)}
	if s := m.State(sim.spec, sim.now); !sim.state.Settled() || s.Action.Restart != ByExit || s.Shutdown.LeftOver {
		t.Errorf("settled %v, recalled %+v", sim.state.Settled(), s)
	}
}
