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

// An engine that does not say whether a container has survived its signal, and then
// tells of its end, leaves nothing that is due for ever.
func TestLookThatIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	w.silent, w.deaf = true, true
	for _, line := range []string{"0s runs", "60s signalled 15", "105s"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if w.state.Checks.InspectAt.IsZero() {
		t.Fatal("nobody has asked")
	}
	w.step("", &Input{Kind: Died})
	w.goTo(w.now.Add(time.Hour))
}

// A start that an ending daemon has tried in vain is the next one's.
func TestStartLeftOver(t *testing.T) {
	w := newWorld(t)
	w.spec.RestartPolicy = Always
	for _, line := range [][]string{{"runs"}, {"start-fails", "yes"}, {"exits", "1"}, {"shutdown"}} {
		if err := w.happen(line[0], line[1:]); err != nil {
			t.Fatal(err)
		}
		w.goTo(w.now.Add(time.Second))
	}
	m := Memory{Facts: Remember(&w.c, "web", &w.state)}
	if s := m.State(w.spec, w.now); !w.state.Settled() || s.Action.Restart != ByExit || s.Shutdown.LeftOver {
		t.Errorf("settled %v, recalled %+v", w.state.Settled(), s)
	}
}
