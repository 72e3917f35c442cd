package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
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
	sim.step("docker stop", sim.signalled(15))
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

// An event has told the end of a job that succeeded, and no inspection shows it yet. What probes, hooks and the network
// of another container say now is no reason for another run.
func TestNothingFailsAfterDie(t *testing.T) {
	for name, lines := range map[string][]string{
		"liveness":            {"liveness=0s/10s/1/1", "0s runs", "12s liveness fails"},
		"liveness, one wait":  {"liveness=0s/10s/1/1", "0s runs", "5s limit other", "6s liveness fails", "12s"},
		"startup":             {"startup=0s/10s/1/3", "0s startup fails", "0s runs", "12s"},
		"post_start":          {"post-start=20s", "0s post-start fails", "0s runs", "12s"},
		"post_start, not run": {"post-start=20s", "0s runs", "12s engine-lost", "12s engine-back"},
		"network":             {"0s network started", "0s runs", "12s"},
	} {
		sim := simulate(t, append([]string{"policy=OnFailure"}, lines...)...)
		sim.step("", sim.died(0))
		if name == "network" {
			sim.c.NetworkOwnerStartedAt = sim.engineNow()
			sim.step("", &Input{Kind: Tick})
		}
		sim.play("20500ms", "21s limit-over", "25s")
		sim.endRun(0)
		sim.step("", &Input{Kind: Observed})
		sim.play("10m")
		if acts := sim.actions(); sim.state.Engine.State.Alive() || slices.ContainsFunc(acts, func(a string) bool { return a == "START" || strings.HasPrefix(a, "STOP") }) {
			t.Errorf("%s: it is %s, actions %v\n%s", name, sim.state.Engine.State, acts, sim.transcript.String())
		}
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
	if s, _ := m.State(sim.spec, &sim.c, sim.now, &Room{}); !sim.state.Settled() || s.Action.Restart != ByExit || s.Shutdown.LeftOver {
		t.Errorf("settled %v, recalled %+v", sim.state.Settled(), s)
	}
}

// A job that is over is started and stopped again by an operator, and healthd hears of the
// new run when it has ended. What it hears is no evidence of who ended the first run.
func TestNewsOfAMissedRun(t *testing.T) {
	for _, policy := range []RestartPolicy{Never, OnFailure} {
		sim := simulate(t, "policy="+string(policy), "0s runs", "5s exits 0", "60s")
		sim.c.StartedAt, sim.c.FinishedAt, sim.c.ExitCode = sim.now.Add(-1200*time.Millisecond), sim.now.Add(-time.Millisecond), 143
		stopped := sim.c.FinishedAt.Add(-200 * time.Millisecond)
		for _, in := range []Input{
			{Kind: Signalled, Signal: 15, Time: stopped}, {Kind: Died, ExitCode: 143, Time: sim.c.FinishedAt}, {Kind: StopCarriedOut, Time: sim.c.FinishedAt},
		} {
			in.Of = runtime.RunHint{Run: sim.state.Run.ID, Newer: true, Started: sim.c.StartedAt}
			sim.step("", &in)
			if by := sim.state.Ending.By; by != EndedByItself {
				t.Errorf("%s: after input %d the first run was ended by %d", policy, in.Kind, by)
			}
		}
		sim.step("", &Input{Kind: Observed})
		if s := &sim.state; s.Run.LastExit.Reason != ReasonCompleted || s.Run.Exit.Reason != ReasonStoppedByOperator || !s.OperatorStopped() {
			t.Errorf("%s: the first run ended by %s, the second by %s", policy, s.Run.LastExit.Reason, s.Run.Exit.Reason)
		}
	}
}

// A signal to the next run is told before the end of the present one. The next run survives it.
func TestSurvivedSignalOfAMissedStart(t *testing.T) {
	sim := simulate(t, "0s runs", "5s")
	next := sim.now.Add(time.Second)
	for _, in := range []Input{
		{Kind: Signalled, Signal: 15, Time: next.Add(time.Second), Of: runtime.RunHint{Run: sim.state.Run.ID, Newer: true, Started: next}},
		{Kind: Died, ExitCode: 1, Time: next, Of: runtime.RunHint{Run: sim.state.Run.ID}},
	} {
		sim.step("", &in)
	}
	sim.c.StartedAt = next
	sim.step("the next run", &Input{Kind: Observed})
	if ready, _, _ := sim.view().Readiness(); ready {
		t.Errorf("ready, although it has got a stop signal:\n%s", sim.transcript.String())
	}
	sim.play("5m")
	if ready, reason, _ := sim.view().Readiness(); !ready {
		t.Errorf("not ready for ever (%s):\n%s", reason, sim.transcript.String())
	}
}

// Late news of the run before, which seems to be of this one, does not keep it from being ready for ever.
func TestLateEndOfTheRunBefore(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		sim := simulate(t, "0s runs", "20s")
		of := runtime.RunHint{Run: sim.state.Run.ID}
		if signalled {
			sim.step("", &Input{Kind: Signalled, Signal: 15, Time: sim.now, Of: of})
		}
		sim.step("", &Input{Kind: Died, ExitCode: 1, Time: sim.now.Add(time.Second), Of: of})
		if ready, _, _ := sim.view().Readiness(); ready {
			t.Errorf("signalled %v: ready, although it has ended as far as is known", signalled)
		}
		sim.play("30m")
		if ready, reason, _ := sim.view().Readiness(); !ready {
			t.Errorf("signalled %v: not ready for ever (%s):\n%s", signalled, reason, sim.transcript.String())
		}
	}
}

// The Watcher takes a signal for one to a run that has ended, because an event was lost. Later it
// finds it in the history, as one to the next run.
func TestSignalToldAgainOfAnotherRun(t *testing.T) {
	at := time.Unix(1000, 0)
	a, b, c := runtime.Run{ID: "a", Started: 1}, runtime.Run{ID: "a", Started: 2}, runtime.Run{ID: "a", Started: 3}
	box := &runtime.Container{ID: "a"}
	var e Ending
	// the view gave C's signal to B, which has ended
	e.signal(signal{news{at: at, of: runtime.RunHint{Run: b}}, 15}, &evidence{container: box, run: b, before: a, now: at})
	e = e.next(c)
	// the inspection of C's end finds it in the history
	if m := e.signal(signal{news{at: at, late: true, of: runtime.RunHint{Run: b, Newer: true}}, 15}, &evidence{container: box, run: c, before: b, alive: true, now: at}); m != meansOperator {
		t.Errorf("the operator's signal to C means %v", m)
	}
}

// The core is one run ahead of the view, whose inspections fail, and the engine tells a signal to
// the run after that.
func TestSignalOfARunAhead(t *testing.T) {
	at := time.Unix(1000, 0)
	a, b := runtime.Run{ID: "a", Started: 1}, runtime.Run{ID: "a", Started: at.UnixNano()}
	for _, tt := range []struct {
		started time.Duration // of the signal's run, since the start of the core's
		want    meaning
	}{{0, meansOperator}, {time.Second, meansOperator}, {time.Minute, meansNextRun}, {-time.Minute, meansOperator}} {
		var e Ending
		m := e.signal(signal{news{at: at.Add(2 * time.Minute), of: runtime.RunHint{Run: a, Newer: true, Started: at.Add(tt.started)}}, 9},
			&evidence{container: &runtime.Container{ID: "a"}, run: b, before: a, now: at})
		if m != tt.want {
			t.Errorf("a signal to a run that began %v after the core's means %v, want %v", tt.started, m, tt.want)
		}
		later := e.next(runtime.Run{ID: "a", Started: at.Add(tt.started).UnixNano()}) // also if that looked like the core's own start
		if known := !later.First.IsZero(); known != (tt.started >= 0) {
			t.Errorf("a run that began %v after the core's knows of its signal: %v", tt.started, known)
		}
		if later = e.next(runtime.Run{ID: "a", Started: at.Add(tt.started + time.Millisecond).UnixNano()}); !later.First.IsZero() {
			t.Errorf("a run after the one that began %v after the core's got its signal", tt.started)
		}
	}
}

// The core is two runs ahead of the view, whose inspections fail.
func TestSignalOfARunTwoAhead(t *testing.T) {
	at := time.Unix(1000, 0)
	a, b, c := runtime.Run{ID: "a", Started: 1}, runtime.Run{ID: "a", Started: 2}, runtime.Run{ID: "a", Started: at.UnixNano() - 1000}
	var e Ending
	m := e.signal(signal{news{at: at, of: runtime.RunHint{Run: a, Newer: true, Started: at}}, 15},
		&evidence{container: &runtime.Container{ID: "a"}, run: c, before: b, alive: true, now: at})
	if m != meansOperator {
		t.Errorf("means %v", m)
	}
}

// Some engines tell who stopped a run only when it has ended, in one signal of the time of the end,
// and tell it again whenever they are asked.
func TestStopToldAfterTheEnd(t *testing.T) {
	at := time.Unix(1000, 0)
	run := runtime.Run{ID: "a", Started: 1}
	for _, tt := range []struct {
		name      string
		stopping  Cause
		stopsSent int
		want      meaning
		who       Ender
	}{
		{"healthd's stop", ByLiveness, 1, meansOwn, EndedByHealthd},
		{"an operator's, before healthd has sent its own", ByLiveness, 0, meansOperator, EndedByOperator},
		{"an operator's", NoCause, 0, meansOperator, EndedByOperator},
	} {
		for _, alive := range []bool{true, false} { // healthd has not seen the end yet, or has
			var e Ending
			v := &evidence{
				container: &runtime.Container{ID: "a"}, run: run, alive: alive, stopping: tt.stopping, stopsSent: tt.stopsSent,
				openCall: tt.stopsSent > 0 || !alive, grace: time.Minute, sentAt: at.Add(-time.Second), now: at.Add(time.Second),
			}
			s := signal{news{at: at, late: true, of: runtime.RunHint{Run: run}}, 15}
			first, again := e.signal(s, v), e.signal(s, v)
			if who := e.Who(tt.stopping); first != tt.want || again != meansNothing || who != tt.who {
				t.Errorf("%s, alive %v: means %v and then %v, ended by %v", tt.name, alive, first, again, who)
			}
		}
	}
}

// An engine that is killed before it has written down the end that it told says, when it is back, that
// the container exited with 0.
func TestEngineForgetsTheExitCode(t *testing.T) {
	for _, tt := range []struct {
		name        string
		told, shown int
		want        int
		restarts    bool
	}{
		{"forgotten", 3, 0, 3, true},
		{"a success", 0, 0, 0, false},
		{"both say so", 3, 3, 3, true},
		{"told otherwise", 0, 3, 3, true},
	} {
		sim := simulatePolicy(t, OnFailure, "0s runs")
		sim.now = sim.now.Add(time.Second)
		sim.step("", sim.died(tt.told))
		sim.endRun(tt.shown)
		sim.step("seen", &Input{Kind: Observed})
		if code := sim.state.Run.Exit.Code; code != tt.want || (sim.state.Action.Restart == ByExit) != tt.restarts {
			t.Errorf("%s: exit code %d, restart %v", tt.name, code, sim.state.Action.Restart)
		}
	}
}

// A container that lives on although its engine had sent it a stop signal is ready again when the
// engine is back, whether healthd could inspect it or not.
func TestSurvivesTheEnginesEnd(t *testing.T) {
	for name, news := range map[string][]*Input{
		"unchanged":     {{Kind: RuntimeBack}},
		"inspected":     {{Kind: Observed}, {Kind: RuntimeBack}},
		"not inspected": {{Kind: RuntimeBack, NotInspected: true}},
	} {
		sim := simulate(t, "readiness=0s/5s/1/1", "0s runs", "10s engine-ends", "10s signalled 15")
		sim.step("", &Input{Kind: RuntimeLost})
		sim.step("", &Input{Kind: EngineRestarted})
		if ready, why, _ := sim.view().Readiness(); ready || why != NotReadyDraining {
			t.Errorf("%s: ready %v (%s) before anybody has looked", name, ready, why)
		}
		for _, in := range news {
			sim.step("", in)
		}
		if ready, why, _ := sim.view().Readiness(); !ready || sim.state.Draining() {
			t.Errorf("%s: not ready: %s\n%s", name, why, sim.transcript.String())
		}
	}
}
