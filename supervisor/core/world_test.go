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

// world is one container with its engine, told of as a story.
type world struct {
	t      *testing.T
	spec   *Spec
	c      runtime.Container
	state  State
	before Ender // who ended the run before
	now    time.Time
	begin  time.Time
	told   strings.Builder

	answers   [NumProbes]prober.Result
	stopFails bool
	failStart bool
	crashes   bool
	stopTakes time.Duration
	lateNews  bool          // of our own stop: after the call has returned
	behind    time.Duration // the engine's clock
	pending   map[time.Time][]func()
	status    string
	silent    bool

	hookTakes  [numHooks]time.Duration
	hookEnds   [numHooks]prober.HookResult
	remembered []string

	deaf   bool // the engine does not say what the container is
	ending bool // nor takes connections, as it shuts down

	wait   Wait   // what a restart that a probe asks for has to wait for
	lastUp string // where it is the last one that takes traffic
	gen    int    // of the daemon
}

func newWorld(t *testing.T) *world {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		t: t, now: begin, begin: begin, pending: make(map[time.Time][]func()),
		spec: &Spec{
			Name: "web", RestartPolicy: Always,
			Backoff: Backoff{Initial: DefaultBackoffInitial, Max: DefaultBackoffMax, ResetAfter: DefaultBackoffReset},
		},
		c: runtime.Container{ID: "c1", Name: "web", Runtime: "docker", State: runtime.Created, StopTimeout: -1, RestartPolicy: "no"},
	}
	for i := range w.answers {
		w.answers[i] = prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
	}
	return w
}

func (w *world) startRun() {
	at := w.engineNow()
	if !at.After(w.c.StartedAt) { // no two runs start at the same moment
		at = w.c.StartedAt.Add(1)
	}
	w.c.State, w.c.StartedAt, w.c.OOMKilled = runtime.Running, at, false
}

func (w *world) engineNow() time.Time { return w.now.Add(-w.behind) }

func (w *world) endRun(code int) {
	w.c.State, w.c.ExitCode, w.c.FinishedAt = runtime.Exited, code, w.engineNow()
}

// goTo lets time go by, with everything that falls due on the way.
func (w *world) goTo(at time.Time) {
	for range 100_000 {
		next := NextTick(&w.state)
		for due := range w.pending {
			if next.IsZero() || due.Before(next) {
				next = due
			}
		}
		if next.IsZero() || next.After(at) {
			w.now = at
			return
		}
		w.now = later(w.now, next)
		if all := w.pending[next]; all != nil {
			delete(w.pending, next)
			for _, f := range all {
				f()
			}
			continue
		}
		w.step("", &Input{Kind: Tick})
	}
	w.t.Fatal("time stands still: a tick is due for ever")
}

// step does what the loop does: decide, publish, carry out.
func (w *world) step(what string, in *Input) {
	c := w.c
	if in.Kind == Observed || in.Kind == CallReturned {
		in.Container = &c
	}
	before := w.state
	in.Wait, in.LastUp = w.wait, w.lastUp
	state, fx := Step(w.spec, &c, w.state, in, w.now, nil)
	if w.state = state; state.Run.ID != before.Run.ID {
		w.before = before.Ending.By
	}
	w.check(before, in, fx)
	w.tell(what, fx)
	for _, f := range fx {
		switch f.Kind {
		case RunProbe:
			w.step("", &Input{Kind: ProbeAnswered, Probe: f.Probe, Result: w.answers[f.Probe]})
		case StopContainer:
			w.step("", &Input{Kind: StopSent})
			if !w.lateNews {
				w.step("", w.stopSignal())
			}
			gen := w.gen
			w.after(w.stopTakes, func() { w.stopped(gen) })
		case InspectContainer:
			if !w.deaf {
				w.step("", &Input{Kind: Observed})
			}
		case DialEngine:
			if !w.ending {
				w.step("", &Input{Kind: EngineAccepts, Time: w.now})
			}
		case StartContainer:
			gen := w.gen
			w.after(0, func() { w.started(gen) })
		case RunHook:
			run, end, gen := w.state.Run.ID, w.hookEnds[f.Hook], w.gen
			w.after(min(w.hookTakes[f.Hook], f.Grace), func() {
				if w.state.Run.ID == run && w.gen == gen {
					w.step("", &Input{Kind: HookEnded, Hook: f.Hook, HookResult: end})
				}
			})
		}
	}
}

func (w *world) after(d time.Duration, f func()) {
	at := w.now.Add(d + time.Nanosecond)
	w.pending[at] = append(w.pending[at], f)
}

// stopped carries a stop out, of which only the daemon hears that has asked for it.
func (w *world) stopped(gen int) {
	if gen != w.gen {
		if w.c.State.Alive() && !w.stopFails {
			w.endRun(0)
			w.step("stop of the daemon before", &Input{Kind: Observed})
		}
		return
	}
	if w.stopFails {
		w.step("", &Input{Kind: CallReturned, Call: StopCall, Err: errors.New("cannot stop container c1: engine is sick")})
		return
	}
	w.endRun(0)
	news := w.stopSignal()
	w.step("", &Input{Kind: CallReturned, Call: StopCall})
	if w.lateNews {
		w.step("late news of our stop", news)
	}
}

// stopSignal is the news of the signal that a stop begins with.
func (w *world) stopSignal() *Input {
	return &Input{Kind: Signalled, Signal: w.c.StopSignalNumber(), Time: w.engineNow()}
}

func (w *world) started(gen int) {
	if gen != w.gen {
		if !w.c.State.Alive() && !w.failStart {
			w.startRun()
			w.step("start by the daemon before", &Input{Kind: Observed})
		}
		return
	}
	if w.c.State.Alive() { // somebody was faster
		w.step("", &Input{Kind: CallReturned, Call: StartCall})
		return
	}
	if w.failStart {
		w.step("", &Input{Kind: CallReturned, Call: StartCall, Err: errors.New("cannot start container c1: port is taken")})
		return
	}
	w.startRun()
	if w.crashes { // before anybody could look
		w.now = w.now.Add(time.Millisecond)
		w.endRun(1)
	}
	w.step("", &Input{Kind: CallReturned, Call: StartCall})
}

// tell writes down what changed, if anything a reader would care for did.
func (w *world) tell(what string, fx []Effect) {
	if w.silent {
		return
	}
	v := View{Container: &w.c, Spec: w.spec, State: w.state}
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
	if n := w.state.RestartCount(); n > 0 {
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
	if what == "" && len(notes) == 0 && status == w.status {
		return
	}
	w.status = status
	fmt.Fprintf(&w.told, "%-8s %-22s -> %s\n", w.now.Sub(w.begin).Truncate(time.Microsecond), what, status)
	for _, n := range notes {
		fmt.Fprintf(&w.told, "%8s    %s\n", "", n)
	}
}

// tale returns a world in which the lines of a story have come true.
func tale(t *testing.T, lines ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.goesOn(lines...)
	return w
}

func (w *world) goesOn(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		if err := w.obey(strings.Fields(line)); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
	}
}

// acts returns what healthd has done to the container so far, as the transcript
// words it: "STOP grace 30s", "START", "PreStop HOOK within 30s". Nothing in a story
// takes no time at all, hence the rounding.
func (w *world) acts() []string {
	var acts []string
	for line := range strings.Lines(w.told.String()) {
		line = strings.TrimSpace(line)
		if grace, ok := strings.CutPrefix(line, "STOP grace "); ok {
			d, err := time.ParseDuration(grace)
			if err != nil {
				w.t.Fatal(err)
			}
			acts = append(acts, fmt.Sprintf("STOP grace %v", d.Round(time.Millisecond)))
		} else if line == "START" || strings.Contains(line, " HOOK within ") {
			acts = append(acts, line)
		}
	}
	return acts
}

// heldBack returns how long the container is still held back by its back-off.
func (w *world) heldBack() time.Duration {
	v := View{Container: &w.c, Spec: w.spec, State: w.state}
	if x := v.Waiting(); x != nil && x.Reason == WaitCrashLoop {
		return max(0, x.Until.Sub(w.now))
	}
	return 0
}
