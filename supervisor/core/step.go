package core

import (
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// InputKind says what happened to a container.
type InputKind uint8

const (
	Observed           InputKind = iota + 1 // the engine was asked: container
	Signalled                               // somebody, perhaps we, sent signal at the engine's time
	Died                                    // the engine says that it ended with code
	StopCarriedOut                          // a request to stop or restart it, perhaps ours, was carried out
	ProbeAnswered                           // a probe came back: probe, result
	StopSent                                // our stop, noted by now, is on its way to the engine
	CallReturned                            // our call to the engine returned: call, err, container unless unknown
	HookEnded                               // a hook ended: hook, ended
	GateSet                                 // somebody set a readiness gate: gate, status
	HoldRequested                           // somebody wants nothing restarted: time, zero for ever
	ResumeRequested                         // and no longer
	SpecChanged                             // the spec is another one from now on: old
	RestartRequested                        // somebody asked healthd for a restart
	ConnectionsDrained                      // no load balancer has anything under way there
	RuntimeLost
	RuntimeBack
	EngineAccepts     // the engine took a new connection at time: it was not ending
	EngineRestarted   // the engine was started anew
	EndedBeforeEngine // and this had ended long before the engine did
	ShutdownBegun     // healthd is to end
	Tick              // time went by
)

// Input is one thing that happened to a container. Which fields are set follows
// from the kind.
type Input struct {
	Kind      InputKind
	Container *runtime.Container
	First     bool // observed: by this daemon
	Unwatched bool // observed: nobody watched how it came to be as it is
	Signal    int
	Time      time.Time
	ExitCode  int
	// Signalled, Died, StopCarriedOut: the newest start that events told of before, zero
	// for none, and the life of the engine that tells it.
	NewestStart time.Time
	Life        EngineLife
	// RuntimeBack: the container was listed, but could not be inspected.
	NotInspected bool
	Probe        ProbeType
	Result       prober.Result
	Call         Call
	Err          error
	Hook         HookType
	HookResult   prober.HookResult
	Gate         string
	Status       bool
	OldSpec      *Spec
	Early        bool // killed, died, stopCarriedOut: before the observation that says what followed
	// With every kind: what a restart that a probe asks for has to wait for, and where
	// the container is the last one that takes traffic.
	Wait   Wait
	LastUp string
}

// EffectKind says what the loop has to do.
type EffectKind uint8

const (
	RunProbe EffectKind = iota + 1
	StopContainer
	StartContainer
	RunHook
	InspectContainer // ask the engine what the container is now
	DialEngine       // ask the engine whether it takes new connections
	RecordEvent
)

// Effect is one thing for the loop to do. Which fields are set follows from what
// it does.
type Effect struct {
	Kind    EffectKind
	Probe   ProbeType
	Late    time.Duration // doAsk: since the probe was due
	Grace   time.Duration // doStop, and doHook: the most that it may take
	Hook    HookType      // doHook
	Reason  string        // doRecord
	Message string
}

// Step decides: from what is known of a container and what happened to it now, it
// makes what is known afterwards and what is to be done, appended to fx. It has no
// clock, no I/O and no memory of its own. c is the container as last inspected,
// for observed and called with a container already the new one.
//
// Effects are in the order in which they must be carried out, and only after the
// new state has been published: readiness is withdrawn before a stop.
func Step(spec *Spec, c *runtime.Container, s State, in *Input, now time.Time, fx []Effect) (State, []Effect) {
	t := stepper{State: s, spec: spec, c: c, now: now, fx: fx}
	t.apply(in)
	if in.Early {
		t.setReadiness()
		return t.State, t.fx
	}
	t.forgetSignals(in)
	t.endHold()
	t.dial()
	t.stopFailedRun(in)
	t.followNetworkOwner()
	t.abandonStop()
	t.setReadiness()
	t.callEngine()
	t.runPostStart()
	t.scheduleProbes(in)
	t.runProbes()
	if t.Engine.State.Alive() {
		t.Health.AliveAt = now
	}
	return t.State, t.fx
}

// stepper is one step under way.
type stepper struct {
	State
	spec *Spec
	c    *runtime.Container
	now  time.Time
	fx   []Effect
}

// apply takes an input in.
func (t *stepper) apply(in *Input) {
	switch in.Kind {
	case Observed:
		t.observed(in)
	case Signalled:
		t.signalled(in)
	case Died:
		t.died(in)
	case StopCarriedOut:
		t.stopCarriedOut(in)
	case ProbeAnswered:
		t.probeAnswered(in.Probe, in.Result)
	case StopSent:
		t.Request.Sent = true
	case CallReturned:
		t.callReturned(in)
	case HookEnded:
		t.hookEnded(in.Hook, in.HookResult)
	case GateSet:
		t.setGate(in.Gate, in.Status)
	case HoldRequested:
		t.hold(in.Time)
	case ResumeRequested:
		t.resume("somebody has resumed it")
	case SpecChanged:
		t.changeSpec(in.OldSpec)
	case RestartRequested:
		t.requestRestart()
	case ConnectionsDrained:
		t.endDrain()
	case RuntimeLost:
		t.Lost, t.Health.Failed = true, NoCause // the first failure after its return decides
	case RuntimeBack:
		t.Lost, t.EngineRestarted = false, t.EngineRestarted && in.NotInspected // it is as it was
	case EngineRestarted:
		t.engineRestarted()
	case EndedBeforeEngine:
		t.endedBeforeEngine()
	case EngineAccepts:
		t.engineAccepts(in.Time)
	case ShutdownBegun:
		t.beginShutdown()
	}
}

func (t *stepper) record(reason, format string, args ...any) {
	t.fx = append(t.fx, Effect{Kind: RecordEvent, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// probeAnswered folds a probe's result in and acts on the verdict, if it is one.
func (t *stepper) probeAnswered(probe ProbeType, r prober.Result) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	if !y.Running {
		return
	}
	y.Running = false
	if !t.shouldProbe(probe) {
		return
	}
	if !y.Due.IsZero() {
		// Of the times that went by meanwhile one is made up for at once, as by the
		// kubelet's ticker.
		y.Due = y.Due.Add(max(1, t.now.Sub(y.Due)/p.Period) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	t.Totals.count(probe, r)
	t.recordResult(probe, r, before)
	switch {
	case !verdict:
	case probe == Readiness:
		y.Result = r.Outcome
	case r.Outcome == prober.Failure:
		y.Result = prober.Failure
		t.failRun(causeOf(probe))
	case probe == Startup:
		y.Result, y.OnHold, y.Run = prober.Success, true, 0
		t.setStarted(true)
		t.recoverRun(ByStartup)
	default:
		y.Result = prober.Success
		t.recoverRun(ByLiveness)
	}
}

// recordResult records what a person would want to know of a result: failures while they
// count towards the threshold, and warnings when they are new.
func (t *stepper) recordResult(probe ProbeType, r, before prober.Result) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	switch {
	case r.Outcome == prober.Failure && y.Run <= p.FailureThreshold:
		t.record(EventUnhealthy, "%s probe failed (%d/%d): %s", probe.Title(), y.Run, p.FailureThreshold, r.Output)
	case r.Outcome == prober.Unknown && r.Cause == prober.NotAsked && before.Cause != prober.NotAsked:
		t.record(EventUnhealthy, "%s probe could not be asked, which does not count: %s", probe.Title(), r.Output)
	case r.Warning && !before.Warning:
		t.record(EventProbeWarning, "%s probe warning: %s", probe.Title(), r.Output)
	}
}

// setReadiness makes readiness follow from everything else.
func (t *stepper) setReadiness() {
	ready := t.containerReady()
	t.Conditions.ContainerReady.set(ready, t.now)
	ready = ready && firstUnmetGate(t.spec, &t.State) == ""
	if ready == t.Conditions.Ready.Status {
		return
	}
	t.Conditions.Ready.set(ready, t.now)
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
