package supervisor

import (
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// inputKind says what happened to a container.
type inputKind uint8

const (
	observed       inputKind = iota + 1 // the engine was asked: container
	killed                              // somebody, perhaps we, sent signal at the engine's time
	died                                // the engine says that it ended with code
	stopCarriedOut                      // a request to stop or restart it, perhaps ours, was carried out
	answered                            // a probe came back: probe, result
	called                              // our call to the engine returned: call, err, container unless unknown
	hooked                              // a hook ended: hook, ended
	gateSet                             // somebody set a readiness gate: gate, status
	respecced                           // the spec is another one from now on: old
	restartAsked                        // somebody asked healthd for a restart
	runtimeLost
	runtimeBack
	shutdown // healthd is to end
	tick     // time went by
)

// input is one thing that happened to a container. Which fields are set follows
// from the kind.
type input struct {
	kind      inputKind
	container *runtime.Container
	found     bool // observed: first seen, and nobody watched before; last may tell more
	signal    int
	time      time.Time
	code      int
	probe     ProbeType
	result    prober.Result
	call      Call
	err       error
	hook      HookType
	ended     prober.HookResult
	gate      string
	status    bool
	old       *Spec
	last      Remembered
}

// Remembered is what an earlier daemon knew of a run that goes on.
type Remembered struct {
	Run     runtime.Run
	Started bool
	Ready   bool // the readiness probe's verdict was Success
}

// effectKind says what the loop has to do.
type effectKind uint8

const (
	doAsk effectKind = iota + 1
	doStop
	doStart
	doHook
	doRecord
)

// effect is one thing for the loop to do. Which fields are set follows from what
// it does.
type effect struct {
	do      effectKind
	probe   ProbeType
	late    time.Duration // doAsk: since the probe was due
	grace   time.Duration // doStop, and doHook: the most that it may take
	hook    HookType      // doHook
	reason  string        // doRecord
	message string
}

// step decides: from what is known of a container and what happened to it now, it
// makes what is known afterwards and what is to be done, appended to fx. It has no
// clock, no I/O and no memory of its own. c is the container as last inspected,
// for observed and called with a container already the new one.
//
// Effects are in the order in which they must be carried out, and only after the
// new state has been published: readiness is withdrawn before a stop.
func step(spec *Spec, c *runtime.Container, s State, in *input, now time.Time, fx []effect) (State, []effect) {
	t := stepper{State: s, spec: spec, c: c, now: now, fx: fx}
	switch in.kind {
	case observed:
		t.observed(in.found)
		t.remember(in.last)
	case killed:
		t.killed(in.signal, in.time)
	case died:
		t.DiedCode = in.code
	case stopCarriedOut:
		t.stopCarriedOut()
	case answered:
		t.answered(in.probe, in.result)
	case called:
		t.called(in)
	case hooked:
		t.hooked(in.hook, in.ended)
	case gateSet:
		t.setGate(in.gate, in.status)
	case respecced:
		t.respecced(in.old)
	case restartAsked:
		t.restartAsked()
	case runtimeLost:
		t.Lost = true
	case runtimeBack:
		t.Lost = false
	case shutdown:
		t.shutdown()
	}
	t.forgetKill()
	t.publish()
	t.act()
	t.postStart()
	t.plan(in)
	t.ask()
	if t.Engine.Alive() {
		t.AliveAt = now
	}
	return t.State, t.fx
}

// stepper is one step under way.
type stepper struct {
	State
	spec *Spec
	c    *runtime.Container
	now  time.Time
	fx   []effect
}

func (t *stepper) record(reason, format string, args ...any) {
	t.fx = append(t.fx, effect{do: doRecord, reason: reason, message: fmt.Sprintf(format, args...)})
}

// answered folds a probe's result in and acts on the verdict, if it is one.
func (t *stepper) answered(probe ProbeType, r prober.Result) {
	y, p := &t.Tallies[probe], t.spec.Probes[probe]
	if !y.Asking {
		return
	}
	y.Asking = false
	if !t.wants(probe) {
		return
	}
	if !y.Due.IsZero() {
		y.Due = y.Due.Add((t.now.Sub(y.Due)/p.Period + 1) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	t.tell(probe, r, before)
	switch {
	case !verdict:
	case probe == Readiness:
		y.Result = r.Outcome
	case r.Outcome == prober.Failure:
		t.condemn(probe)
	case probe == Startup:
		y.Result, y.OnHold, y.Length = prober.Success, true, 0
		t.started(true)
	default:
		y.Result = prober.Success
	}
}

// tell records what a person would want to know of a result: failures while they
// count towards the threshold, and warnings when they are new.
func (t *stepper) tell(probe ProbeType, r, before prober.Result) {
	y, p := &t.Tallies[probe], t.spec.Probes[probe]
	switch {
	case r.Outcome == prober.Failure && y.Length <= p.FailureThreshold:
		t.record(EventUnhealthy, "%s probe failed (%d/%d): %s", probe.Title(), y.Length, p.FailureThreshold, r.Output)
	case r.Outcome == prober.Unknown && r.Cause == prober.NotAsked && before.Cause != prober.NotAsked:
		t.record(EventUnhealthy, "%s probe could not be asked, which does not count: %s", probe.Title(), r.Output)
	case r.Warning && !before.Warning:
		t.record(EventProbeWarning, "%s probe warning: %s", probe.Title(), r.Output)
	}
}

// condemn decides that the run has to end because of a liveness or startup probe.
// While the engine cannot be heard nothing is decided: the next failure comes here
// again.
func (t *stepper) condemn(probe ProbeType) {
	y := &t.Tallies[probe]
	switch {
	case t.Lost:
		return
	case t.c.AutoRemove: // stopping it would destroy it
		y.Result = prober.Failure
		return
	}
	y.Result, y.OnHold, y.Length = prober.Failure, true, 0
	cause := ByLiveness
	if probe == Startup {
		cause = ByStartup
	}
	t.record(EventKilling, "Container %s failed %s probe, %s", t.c.Name, probe, t.afterStop())
	t.stop(cause)
}

// publish makes readiness follow from everything else.
func (t *stepper) publish() {
	ready := t.containerReady()
	if ready != t.ContainerReady {
		t.ContainerReady, t.ContainerReadyCh = ready, t.now
	}
	ready = ready && closedGate(t.spec, &t.State) == ""
	if ready == t.Ready {
		return
	}
	t.Ready, t.ReadyCh = ready, t.now
	if ready {
		t.record(EventReady, "Container %s is ready", t.c.Name)
		return
	}
	v := View{Container: t.c, Spec: t.spec, State: t.State}
	_, reason, message := v.Readiness()
	if message != "" {
		message = ": " + message
	}
	t.record(EventNotReady, "Container %s is not ready: %s%s", t.c.Name, reason, message)
}
