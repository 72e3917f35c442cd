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
	callMade                            // our stop, noted by now, is on its way to the engine
	called                              // our call to the engine returned: call, err, container unless unknown
	hooked                              // a hook ended: hook, ended
	gateSet                             // somebody set a readiness gate: gate, status
	held                                // somebody wants nothing restarted: time, zero for ever
	resumed                             // and no longer
	respecced                           // the spec is another one from now on: old
	restartAsked                        // somebody asked healthd for a restart
	drained                             // no load balancer has anything under way there
	runtimeLost
	runtimeBack
	accepted     // the engine took a new connection at time: it was not ending
	engineReborn // the engine was started anew
	endedBefore  // and this had ended long before the engine did
	shutdown     // healthd is to end
	tick         // time went by
)

// input is one thing that happened to a container. Which fields are set follows
// from the kind.
type input struct {
	kind      inputKind
	container *runtime.Container
	first     bool // observed: by this daemon
	found     bool // observed: nobody watched how it came to be as it is
	reborn    bool // observed: its engine was started anew since the last time
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
	early     bool // killed, died, stopCarriedOut: before the observation that says what followed
	// With every kind: what a restart that a probe asks for has to wait for, and where
	// the container is the last one that takes traffic.
	wait   Wait
	lastUp string
}

// effectKind says what the loop has to do.
type effectKind uint8

const (
	doAsk effectKind = iota + 1
	doStop
	doStart
	doHook
	doLook   // ask the engine what the container is now
	doAccept // ask the engine whether it takes new connections
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
	t.take(in)
	if in.early {
		t.publish()
		return t.State, t.fx
	}
	t.forgetKill(in)
	t.endHold()
	t.doubt()
	t.judge(in)
	t.sharesNetwork()
	t.giveUp()
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

// take takes an input in.
func (t *stepper) take(in *input) {
	switch in.kind {
	case observed:
		t.observed(in)
	case killed:
		t.killed(in.signal, in.time)
	case died:
		t.died(in.code, in.time)
	case stopCarriedOut:
		t.stopCarriedOut(in)
	case answered:
		t.answered(in.probe, in.result)
	case callMade:
		t.CallMade = true
	case called:
		t.called(in)
	case hooked:
		t.hooked(in.hook, in.ended)
	case gateSet:
		t.setGate(in.gate, in.status)
	case held:
		t.hold(in.time)
	case resumed:
		t.resume("somebody has resumed it")
	case respecced:
		t.respecced(in.old)
	case restartAsked:
		t.restartAsked()
	case drained:
		t.drained()
	case runtimeLost:
		t.Lost, t.Condemned = true, NoCause // the first failure after its return decides
	case runtimeBack:
		t.Lost = false
	case engineReborn:
		t.revive()
	case endedBefore:
		t.endedBefore()
	case accepted:
		t.Doubtful = t.Doubtful && t.DoubtAt.After(in.time)
	case shutdown:
		t.shutdown()
	}
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
		// Of the times that went by meanwhile one is made up for at once, as by the
		// kubelet's ticker.
		y.Due = y.Due.Add(max(1, t.now.Sub(y.Due)/p.Period) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	t.tell(probe, r, before)
	switch {
	case !verdict:
	case probe == Readiness:
		y.Result = r.Outcome
	case r.Outcome == prober.Failure:
		y.Result = prober.Failure
		t.condemn(causeOf(probe))
	case probe == Startup:
		y.Result, y.OnHold, y.Length = prober.Success, true, 0
		t.started(true)
		t.spare(ByStartup)
	default:
		y.Result = prober.Success
		t.spare(ByLiveness)
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
