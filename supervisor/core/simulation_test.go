package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// simulation runs the core with one container and its engine, as a story or a random
// script says, and writes a transcript.
type simulation struct {
	t           *testing.T
	spec        *Spec
	c           runtime.Container
	state       State
	enderBefore Ender // who ended the previous run
	start       time.Time
	now         time.Time
	scheduled   map[time.Time][]func()
	generation  int // of the daemon; a newer one hears nothing of an older one's calls
	changed     int // how often random scripts have changed the spec

	transcript   strings.Builder
	noTranscript bool
	lastStatus   string // the newest one in the transcript

	answers    [NumProbes]prober.Result
	hookTakes  [numHooks]time.Duration
	hookEnds   [numHooks]prober.HookResult
	detected   []time.Duration
	remembered []string // conditions that the last daemon knew of the run that is found next; nil: nothing

	// How the engine and the container behave.
	stopTakes          time.Duration
	stopFails          bool
	stopRefused        bool // the engine does not allow it: no signal is sent
	startFails         bool
	startRefused       bool // the engine does not allow it
	startUnseen        bool
	crashesAtStart     bool
	unknownSignals     bool          // the engine does not tell which signals they are
	lateStopSignal     bool          // the engine tells the signal of healthd's stop after the call has returned
	clockOffset        time.Duration // how far the engine's clock is ahead
	inspectionsFail    bool
	refusesConnections bool // it shuts down

	// What the loop adds to every input.
	wait   Wait
	lastUp string
}

func newSimulation(t *testing.T) *simulation {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sim := &simulation{
		t: t, state: NewState(), now: start, start: start, scheduled: make(map[time.Time][]func()),
		spec: &Spec{
			Name: "web", RestartPolicy: Always,
			Backoff: Backoff{Initial: DefaultBackoffInitial, Max: DefaultBackoffMax, ResetAfter: DefaultBackoffReset},
		},
		c: runtime.Container{ID: "c1", Name: "web", Runtime: "docker", State: runtime.Created, StopTimeout: -1, RestartPolicy: "no"},
	}
	for i := range sim.answers {
		sim.answers[i] = prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
	}
	return sim
}

func (sim *simulation) startRun() {
	at := sim.engineNow()
	if at.Equal(sim.c.StartedAt) { // no two runs start at the same moment
		at = at.Add(1)
	}
	sim.c.State, sim.c.StartedAt, sim.c.OOMKilled, sim.c.Error = runtime.Running, at, false, ""
}

func (sim *simulation) engineNow() time.Time { return sim.now.Add(sim.clockOffset) }

// event returns an event of the container's newest run.
func (sim *simulation) event(kind InputKind) *Input {
	run, observed := sim.c.Run(), sim.state.Run.ID
	return &Input{Kind: kind, Time: sim.engineNow(), EngineNow: sim.engineNow(), Of: runtime.RunHint{Run: observed, Newer: run != observed, Started: sim.c.StartedAt}}
}

// signalled returns the news of a signal.
func (sim *simulation) signalled(number int) *Input {
	in := sim.event(Signalled)
	if in.Signal = number; sim.unknownSignals {
		in.Signal = runtime.UnknownSignal
	}
	return in
}

func (sim *simulation) endRun(code int) {
	sim.c.State, sim.c.ExitCode, sim.c.FinishedAt = runtime.Exited, code, sim.engineNow()
}

// advanceTo lets time pass up to that moment, and does on the way what is due.
func (sim *simulation) advanceTo(at time.Time) {
	for range 100_000 {
		next := NextTick(&sim.state)
		for due := range sim.scheduled {
			if next.IsZero() || due.Before(next) {
				next = due
			}
		}
		if next.IsZero() || next.After(at) {
			sim.now = at
			return
		}
		sim.now = later(sim.now, next)
		if all := sim.scheduled[next]; all != nil {
			delete(sim.scheduled, next)
			for _, f := range all {
				f()
			}
			continue
		}
		sim.step("", &Input{Kind: Tick})
	}
	sim.t.Fatal("time stands still: a tick is always due")
}

// step does what the loop does: it decides, publishes and carries out the effects.
func (sim *simulation) step(what string, in *Input) {
	c := sim.c
	if in.Kind == Observed || in.Kind == CallReturned {
		in.Container, in.EngineNow = &c, sim.engineNow()
	}
	before := sim.state
	in.Wait, in.LastUp = sim.wait, sim.lastUp
	state, fx := Step(sim.spec, &c, &sim.state, in, sim.now, &Room{})
	if sim.state = state; state.Run.ID != before.Run.ID {
		sim.enderBefore = before.Ending.By
	}
	sim.checkInvariants(before, in, fx)
	sim.writeTranscript(what, fx)
	for _, f := range fx {
		if f.Detected > 0 {
			sim.detected = append(sim.detected, f.Detected)
		}
		sim.carryOut(f)
	}
}

// carryOut lets the engine, the probes and the hooks do what an effect asks for.
func (sim *simulation) carryOut(f Effect) {
	generation := sim.generation
	switch f.Kind {
	case RunProbe:
		sim.step("", &Input{Kind: ProbeAnswered, Probe: f.Probe, Result: sim.answers[f.Probe]})
	case StopContainer:
		sim.step("", &Input{Kind: StopSent})
		if !sim.lateStopSignal && !sim.stopRefused {
			sim.step("", sim.stopSignal())
		}
		sim.schedule(sim.stopTakes, func() { sim.finishStop(generation) })
	case InspectContainer:
		if !sim.inspectionsFail {
			sim.step("", &Input{Kind: Observed})
		}
	case DialEngine:
		if !sim.refusesConnections {
			sim.step("", &Input{Kind: EngineAccepts, Time: sim.now})
		}
	case StartContainer:
		sim.schedule(0, func() { sim.finishStart(generation) })
	case RunHook:
		run, result := sim.state.Run.ID, sim.hookEnds[f.Hook]
		sim.schedule(min(sim.hookTakes[f.Hook], f.Grace), func() {
			if sim.state.Run.ID == run && sim.generation == generation {
				sim.step("", &Input{Kind: HookEnded, Hook: f.Hook, HookResult: result})
			}
		})
	}
}

func (sim *simulation) schedule(d time.Duration, f func()) {
	at := sim.now.Add(d + time.Nanosecond)
	sim.scheduled[at] = append(sim.scheduled[at], f)
}

// finishStop ends a stop call. Only the daemon that made the call hears its outcome.
func (sim *simulation) finishStop(generation int) {
	if generation != sim.generation {
		if sim.c.State.Alive() && !sim.stopFails && !sim.stopRefused {
			sim.endRun(0)
			sim.step("stop of the daemon before", &Input{Kind: Observed})
		}
		return
	}
	if sim.stopRefused {
		err := fmt.Errorf("cannot stop container c1: %w", runtime.Refusal("POST /containers/c1/stop: 403 Forbidden (a socket proxy?)"))
		sim.step("", &Input{Kind: CallReturned, Call: StopCall, Err: err})
		return
	}
	if sim.stopFails {
		sim.step("", &Input{Kind: CallReturned, Call: StopCall, Err: errors.New("cannot stop container c1: engine is sick")})
		return
	}
	sim.endRun(0)
	news := sim.stopSignal()
	sim.step("", &Input{Kind: CallReturned, Call: StopCall})
	if sim.lateStopSignal {
		sim.step("late news of own stop", news)
	}
}

// stopSignal returns the news of the signal that a stop begins with.
func (sim *simulation) stopSignal() *Input {
	return sim.signalled(sim.c.StopSignalNumber())
}

func (sim *simulation) finishStart(generation int) {
	if generation != sim.generation {
		if !sim.c.State.Alive() && !sim.startFails {
			sim.startRun()
			sim.step("start by the daemon before", &Input{Kind: Observed})
		}
		return
	}
	if sim.c.State.Alive() { // somebody else started it first
		sim.step("", &Input{Kind: CallReturned, Call: StartCall})
		return
	}
	if sim.startUnseen { // the engine says neither that it started the container nor what became of it
		sim.step("", &Input{Kind: CallReturned, Call: StartCall, Err: OutcomeUnknown{errors.New("engine is sick")}})
		return
	}
	if sim.startRefused {
		err := fmt.Errorf("cannot start container c1: %w", runtime.Refusal("POST /containers/c1/start: 403 Forbidden (a socket proxy?)"))
		sim.step("", &Input{Kind: CallReturned, Call: StartCall, Err: err})
		return
	}
	if sim.startFails {
		sim.step("", &Input{Kind: CallReturned, Call: StartCall, Err: errors.New("cannot start container c1: port is taken")})
		return
	}
	sim.startRun()
	if sim.crashesAtStart { // before healthd can inspect it
		sim.now = sim.now.Add(time.Millisecond)
		sim.endRun(1)
	}
	sim.step("", &Input{Kind: CallReturned, Call: StartCall})
}

// writeTranscript writes what happened, if the status changed or there is something to tell.
func (sim *simulation) writeTranscript(what string, fx []Effect) {
	if sim.noTranscript {
		return
	}
	v := sim.view()
	ready, reason, _ := v.Readiness()
	status := string(v.Phase())
	if waiting := v.Waiting(); waiting != nil {
		status += " " + waiting.Reason
	}
	if ready {
		status += " ready"
	} else {
		status += " not-ready:" + reason
	}
	if n := sim.state.RestartCount(); n > 0 {
		status += fmt.Sprintf(" restarts:%d", n)
	}
	var notes []string
	for _, f := range fx {
		switch f.Kind {
		case StopContainer:
			notes = append(notes, fmt.Sprintf("STOP grace %v", f.Grace))
		case StartContainer:
			notes = append(notes, "START")
		case RunHook:
			notes = append(notes, fmt.Sprintf("%s HOOK within %v", f.Hook.Title(), f.Grace))
		case RecordEvent:
			notes = append(notes, fmt.Sprintf("%s %q", f.Reason, f.Message))
		}
	}
	if what == "" && len(notes) == 0 && status == sim.lastStatus {
		return
	}
	sim.lastStatus = status
	fmt.Fprintf(&sim.transcript, "%-8s %-22s -> %s\n", sim.now.Sub(sim.start).Truncate(time.Microsecond), what, status)
	for _, n := range notes {
		fmt.Fprintf(&sim.transcript, "%8s    %s\n", "", n)
	}
}

// simulate returns a simulation in which these lines of a story have happened.
func simulate(t *testing.T, lines ...string) *simulation {
	t.Helper()
	sim := newSimulation(t)
	sim.play(lines...)
	return sim
}

// play lets these lines of a story happen.
func (sim *simulation) play(lines ...string) {
	sim.t.Helper()
	for _, line := range lines {
		if err := sim.playLine(strings.Fields(line)); err != nil {
			sim.t.Fatalf("%s: %v", line, err)
		}
	}
}

// playNow lets one event of a story happen now.
func (sim *simulation) playNow(event string) {
	sim.t.Helper()
	words := strings.Fields(event)
	if err := sim.playEvent(words[0], words[1:]); err != nil {
		sim.t.Fatalf("%s: %v", event, err)
	}
}

func (sim *simulation) view() *View {
	return &View{Container: &sim.c, Spec: sim.spec, State: sim.state}
}

// actions returns what healthd has done to the container so far, in the words of the
// transcript: "STOP grace 30s", "START", "PreStop HOOK within 30s". The simulation adds a
// nanosecond to each duration, so actions rounds them.
func (sim *simulation) actions() []string {
	var acts []string
	for line := range strings.Lines(sim.transcript.String()) {
		line = strings.TrimSpace(line)
		if grace, ok := strings.CutPrefix(line, "STOP grace "); ok {
			d, err := time.ParseDuration(grace)
			if err != nil {
				sim.t.Fatal(err)
			}
			acts = append(acts, fmt.Sprintf("STOP grace %v", d.Round(time.Millisecond)))
		} else if line == "START" || strings.Contains(line, " HOOK within ") {
			acts = append(acts, line)
		}
	}
	return acts
}

// backoffLeft returns how much longer the container waits in back-off.
func (sim *simulation) backoffLeft() time.Duration {
	if x := sim.view().Waiting(); x != nil && x.Reason == WaitCrashLoop {
		return max(0, x.Until.Sub(sim.now))
	}
	return 0
}
