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
	Observed           InputKind = iota + 1 // an inspection of the container: Container, First, Unwatched
	Signalled                               // somebody, perhaps healthd, sent a signal: Signal, Time, NewestStart, Life
	Died                                    // an event told the end of a run: ExitCode, Time, NewestStart, Life
	StopCarriedOut                          // the engine finished a stop or restart request, perhaps healthd's: Time, NewestStart, Life
	ProbeAnswered                           // a probe ended: Probe, Result
	StopSent                                // the journal has the stop, and the call now leaves for the engine
	CallReturned                            // healthd's call to the engine returned: Call, Err, Container (nil: unknown)
	HookEnded                               // a hook ended: Hook, HookResult
	GateSet                                 // somebody set a readiness gate: Gate, Status
	HoldRequested                           // an operator holds the container: Time of the end, zero: until a resume
	ResumeRequested                         // an operator ends the hold
	SpecChanged                             // a reload changed the spec: OldSpec
	RestartRequested                        // an operator asked healthd for a restart
	ConnectionsDrained                      // no load balancer has a request under way to the container
	RuntimeLost                             // healthd cannot reach the engine
	RuntimeBack                             // it can again: NotInspected
	EngineAccepts                           // the engine accepted a connection begun at Time: it was not shutting down
	EngineRestarted                         // the engine has restarted
	EndedBeforeEngine                       // and the run had ended long before the engine did
	ShutdownBegun                           // healthd shuts down
	Tick                                    // the time that NextTick named has come
)

// Input is one thing that happened to a container. The kind decides which fields are
// set.
type Input struct {
	Kind         InputKind
	Container    *runtime.Container
	First        bool      // this daemon's first observation
	Unwatched    bool      // nobody watched the engine since the change that it shows
	Signal       int       // number
	Time         time.Time // of an event by the engine's clock; of HoldRequested and EngineAccepts by healthd's
	ExitCode     int
	NewestStart  time.Time  // newest start that earlier events told; zero: none
	Life         EngineLife // of the engine that tells the event
	NotInspected bool       // the engine lists the container, but inspecting it failed
	Probe        ProbeType
	Result       prober.Result
	Call         Call
	Err          error
	Hook         HookType
	HookResult   prober.HookResult
	Gate         string
	Status       bool
	OldSpec      *Spec
	Early        bool // the observation that shows what followed comes next: decide nothing yet

	// With every kind.
	Wait   Wait   // what a restart for a failed probe has to wait for
	LastUp string // the load balancer's backend of which the container is the last server up; empty: none
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

// Effect is one thing for the loop to do. The kind decides which fields are set.
type Effect struct {
	Kind    EffectKind
	Probe   ProbeType     // RunProbe
	Late    time.Duration // RunProbe: time since the probe was due
	Grace   time.Duration // StopContainer: grace period; RunHook: time limit
	Hook    HookType      // RunHook
	Reason  string        // RecordEvent
	Message string        // RecordEvent
}

// Step returns the state of a container after an input, and appends to fx what the caller
// has to do. c is the container as last inspected; if the input has a Container, c is that
// one.
//
// The caller publishes the new state first, so that readiness is withdrawn before a stop,
// and then carries out the effects in their order.
func Step(spec *Spec, c *runtime.Container, s State, in *Input, now time.Time, fx []Effect) (State, []Effect) {
	t := stepper{State: s, spec: spec, c: c, now: now, fx: fx}
	t.apply(in)
	if in.Early {
		t.setReadiness()
		return t.State, t.fx
	}
	t.forgetSignals(in)
	t.endHold()
	t.dialEngine()
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
		t.resume("an operator resumed it")
	case SpecChanged:
		t.changeSpec(in.OldSpec)
	case RestartRequested:
		t.requestRestart()
	case ConnectionsDrained:
		t.endDrain()
	case RuntimeLost:
		t.Lost, t.Health.Failed = true, NoCause // the first failure after the engine's return decides
	case RuntimeBack:
		t.Lost = false
		if !in.NotInspected { // inspected, and unchanged: the restart did not end the run
			t.EngineRestarted = false
		}
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

// probeAnswered counts a probe's result, and acts on the verdict if there is one.
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
		// A probe that took several periods is followed by one probe at once, not by one
		// for each missed period. (kubelet's ticker)
		y.Due = y.Due.Add(max(1, t.now.Sub(y.Due)/p.Period) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	t.Totals.count(probe, r)
	t.recordResult(probe, r, before)
	if verdict {
		t.actOnVerdict(probe, r.Outcome)
	}
}

func (t *stepper) actOnVerdict(probe ProbeType, outcome prober.Outcome) {
	y := &t.Health.Probes[probe]
	switch {
	case probe == Readiness: // setReadiness acts on it
		y.Result = outcome
	case outcome == prober.Failure:
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

// recordResult records the results that an operator wants to know: failures up to the
// threshold, and warnings and probes that could not run when they are new.
func (t *stepper) recordResult(probe ProbeType, r, before prober.Result) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	switch {
	case r.Outcome == prober.Failure && y.Run <= p.FailureThreshold:
		t.record(EventUnhealthy, "%s probe failed (%d/%d): %s", probe.Title(), y.Run, p.FailureThreshold, r.Output)
	case r.Outcome == prober.Unknown && r.Cause == prober.NotAsked && before.Cause != prober.NotAsked:
		t.record(EventUnhealthy, "%s probe could not run, which does not count: %s", probe.Title(), r.Output)
	case r.Warning && !before.Warning:
		t.record(EventProbeWarning, "%s probe warning: %s", probe.Title(), r.Output)
	}
}

// setReadiness sets the conditions ContainerReady and Ready, which follow from everything
// else.
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
