package core

import (
	"cmp"
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// View is one supervised container at one moment. It never changes.
type View struct {
	Container *runtime.Container
	Spec      *Spec  // nil: see Invalid
	Invalid   string // what is wrong with the container's labels; empty: nothing
	Identity  string // see IdentityOf
	Group     string // Spec.Group.Name, else see GroupOf
	Service   string // under which healthd publishes it; empty if invalid
	// CannotEnter is why healthd cannot enter network namespaces; empty: it can.
	CannotEnter string
	State       State
}

// Phase is a container's phase, by the rules for a Pod's phase.
type Phase string

// The phases.
const (
	PhasePending   Phase = "Pending"
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
	PhaseUnknown   Phase = "Unknown"
)

// Phase returns the container's phase. A container whose restart is due is Running.
func (v *View) Phase() Phase {
	if v.State.Lost {
		return PhaseUnknown
	}
	return v.lastPhase()
}

// lastPhase is the phase that the container had when its engine was last reached.
func (v *View) lastPhase() Phase {
	s := &v.State
	switch {
	case s.Engine.State.Alive():
		return PhaseRunning
	case s.Run.ID == runtime.Run{}: // even if its first start is under way
		return PhasePending
	case s.Engine.State == runtime.Restarting, s.Action.Restart != NoCause && !s.Action.GaveUp, s.Action.Call == StartCall:
		return PhaseRunning
	case s.Run.Exit.Code == 0:
		return PhaseSucceeded
	}
	return PhaseFailed
}

// ShouldServe says that the container is meant to run now: while it is not ready, it is down. That is not so of what
// operators have stopped, are stopping or hold, of a job that is done, of what has never run and no one has tried to start,
// of what another orchestrator replaces, and of what was down when healthd came. Of an end that healthd did not watch it
// is, if healthd knew the run: no evidence says that an operator wanted it.
func (v *View) ShouldServe() bool {
	s := &v.State
	switch alive := s.Engine.State.Alive(); {
	case v.Spec == nil, s.Lasting.Held():
		return false
	case alive:
		return !s.Ending.Signalled() || s.Action.Stopping != NoCause
	case v.Spec.ManagedElsewhere != "", s.OperatorStopped(), s.Ending.NeverSeen && s.Action.Restart == NoCause:
		return false
	}
	phase := v.lastPhase()
	return phase != PhaseSucceeded && (phase != PhasePending || v.startError() != "" || s.Action.Restart != NoCause)
}

// startError is why the engine has not started a container that has never run; empty: nobody has tried, or it has run.
func (v *View) startError() string {
	if v.State.Run.ID != (runtime.Run{}) || v.Container.Error == "" {
		return ""
	}
	return "the engine did not start it: " + v.Container.Error
}

// ServicePhase returns a service's phase, which follows from its members as a Pod's phase
// follows from its containers. (kubelet getPhase) The first row that applies decides:
//
//	the state of one member is unknown           Unknown
//	one member has never run, or there is none   Pending
//	one member runs, or its restart is due       Running
//	one member has failed for good               Failed
//	all members have succeeded                   Succeeded
//
// Members with invalid labels count like all others: the engine runs them, too.
func ServicePhase(members []*View) Phase {
	phases := make([]Phase, len(members))
	for i, v := range members {
		phases[i] = v.Phase()
	}
	return PhaseOfAll(phases)
}

// PhaseOfAll is ServicePhase of members with these phases.
func PhaseOfAll(phases []Phase) Phase {
	has := make(map[Phase]bool)
	for _, p := range phases {
		has[p] = true
	}
	for _, p := range []Phase{PhaseUnknown, PhasePending, PhaseRunning, PhaseFailed, PhaseSucceeded} {
		if has[p] {
			return p
		}
	}
	return PhasePending
}

// Started says whether the present run is started, and since when. An ended run is not.
func (v *View) Started() (started bool, since time.Time) {
	s := &v.State
	if s.Conditions.Started.Status && !s.Engine.State.Alive() {
		return false, later(s.Conditions.Started.Since, s.Run.Exit.FinishedAt)
	}
	return s.Conditions.Started.Status, s.Conditions.Started.Since
}

// Reasons for not being ready, and for a condition being False.
const (
	NotReadyInvalid   = "Invalid"
	NotReadyNotRun    = "NotRunning"
	NotReadyPaused    = "Paused"
	NotReadyNoAddress = "NoAddress"
	NotReadyDraining  = "Draining"
	NotReadyStarting  = "StartupPending"
	NotReadyPending   = "ReadinessPending"
	NotReadyReadiness = "ReadinessFailed"
	NotReadyPostStart = "PostStartPending"
	NotReadyGates     = "ReadinessGatesNotReady"
)

// Readiness says whether the container takes traffic. If not, it returns one of the
// NotReady constants and a message, which may be empty.
func (v *View) Readiness() (ready bool, reason, message string) {
	switch {
	case v.Spec != nil && v.State.Conditions.Ready.Status:
		return true, "", ""
	case v.Spec == nil, !v.State.Conditions.ContainerReady.Status:
		return v.ContainerReadiness()
	}
	gate := firstUnmetGate(v.Spec, &v.State)
	if _, ok := v.State.Gate(gate); !ok {
		return false, NotReadyGates, "readiness gate " + gate + " was never set"
	}
	return false, NotReadyGates, "readiness gate " + gate + " is False"
}

// Address returns where a balancer on this host reaches the container; empty, 0: nowhere, and no port is given.
func (v *View) Address() (address string, port int) {
	var p Publish // of one with invalid labels
	if v.Spec != nil {
		p = v.Spec.Publish
	}
	address, port, _ = p.Local(v.Container)
	return address, port
}

// DrainingReady says that the container drains, and would be ready otherwise: it still
// answers the requests that reach it.
func (v *View) DrainingReady() bool {
	s := &v.State
	return v.Spec != nil && s.Draining() && s.runs() && s.Conditions.Started.Status &&
		s.Health.Probes[Readiness].Result != prober.Failure && firstUnmetGate(v.Spec, s) == ""
}

// ContainerReadiness is Readiness without the readiness gates.
func (v *View) ContainerReadiness() (ready bool, reason, message string) {
	s := &v.State
	switch {
	case v.Spec == nil:
		return false, NotReadyInvalid, v.Invalid
	case s.Conditions.ContainerReady.Status:
		return true, "", ""
	case s.Draining():
		return false, NotReadyDraining, ""
	case s.Engine.State == runtime.Paused:
		return false, NotReadyPaused, ""
	case s.Engine.State != runtime.Running:
		return false, NotReadyNotRun, cmp.Or(v.startError(), string(s.Engine.State))
	case s.Run.Died:
		return false, NotReadyNotRun, string(runtime.Exited)
	case s.Engine.NoAddress:
		_, _, why := v.Spec.Publish.Local(v.Container)
		return false, NotReadyNoAddress, why
	case s.Run.Hooks[PostStart] == HookRunning:
		return false, NotReadyPostStart, "its post_start hook runs"
	case s.Run.Hooks[PostStart] == HookFailed:
		return false, NotReadyPostStart, "its post_start hook failed"
	case s.postStartPending():
		return false, NotReadyPostStart, "its post_start hook has not run yet"
	case !s.Conditions.Started.Status:
		return false, NotReadyStarting, s.Health.Probes[Startup].Last.Output
	case s.Health.Probes[Readiness].Outcome != prober.Failure:
		return false, NotReadyPending, s.Health.Probes[Readiness].Last.Output
	}
	return false, NotReadyReadiness, s.Health.Probes[Readiness].Last.Output
}

// Waiting is what a container waits for, in the form of a Pod's waiting state.
type Waiting struct {
	Reason  string
	Message string
	Until   time.Time // end of the wait; zero: unknown
}

// Reasons for waiting.
const (
	WaitCrashLoop      = "CrashLoopBackOff"
	WaitDraining       = "Draining"
	WaitRuntimeUnknown = "RuntimeUnknown"
	WaitRestarting     = "Restarting" // a start without back-off, or a restart by the engine's own policy
	WaitCreated        = "Created"
	WaitStartError     = "RunContainerError" // it has never run: the engine could not start it
	WaitGroupLimit     = "GroupLimit"
	WaitRestartBudget  = "RestartBudget"
	WaitHostSuspect    = "HostSuspect"
	WaitHeld           = "Held"
	WaitObserved       = EventWouldRestart // for ever: healthd only observes the container
	WaitGaveUp         = EventGaveUp
	WaitNetwork        = "NetworkUnavailable"
)

// Waiting returns what the container waits for; nil: it does not wait.
func (v *View) Waiting() *Waiting {
	s := &v.State
	switch {
	case s.Action.Restart != NoCause:
		return v.waitingForStart()
	case s.InDoubt():
		return &Waiting{Reason: WaitRuntimeUnknown, Message: s.doubt()}
	case s.Lost && (s.Health.Failed != NoCause || s.Draining() || s.Engine.State == runtime.Restarting):
		return &Waiting{Reason: WaitRuntimeUnknown, Message: engineLost}
	case s.Health.Failed != NoCause:
		message := "failed " + failureOf(s.Health.Failed)
		switch s.Health.Wait.Reason {
		case WaitObserved:
			message += ", and is only observed: healthd does not restart it"
		case WaitGaveUp:
			message += ", and is not restarted until " + s.Health.EndOfGivingUp() + ": " + v.Spec.GiveUp.String()
		default:
			message += ", its restart waits"
		}
		if s.Health.Wait.On != "" {
			message += " for " + s.Health.Wait.On
		}
		return &Waiting{Reason: s.Health.Wait.Reason, Message: message, Until: s.Health.Wait.Until}
	case s.Draining():
		return s.waitingForStop()
	case s.Engine.State == runtime.Restarting:
		return &Waiting{Reason: WaitRestarting, Message: "the engine restarts it by its own restart policy"}
	case !s.Engine.State.Alive() && v.startError() != "":
		return &Waiting{Reason: WaitStartError, Message: v.startError()}
	case !s.Engine.State.Alive() && s.Run.ID == runtime.Run{}:
		return &Waiting{Reason: WaitCreated}
	}
	return nil
}

const engineLost = "healthd cannot reach its engine, and restarts nothing until it can"

// doubt says what is known of a run that is InDoubt.
func (s *State) doubt() string {
	what := "it ended as its engine stopped, or by an operator"
	if s.Engine.State.Alive() && !s.Run.Died {
		what = "its stop signal came from its engine, which stopped, or from an operator"
	}
	return what + ": healthd decides when the engine is back"
}

// LastExit returns how the newest run ended, as far as that is known by now.
func (v *View) LastExit() Exit {
	e := v.State.Run.Exit
	if v.State.InDoubt() && e.Reason == ReasonStoppedByOperator {
		e.Reason = exitOf(v.Container).Reason
	}
	return e
}

// FewerStarts says, for people, when a start that is Queued begins.
var FewerStarts = fmt.Sprintf("fewer than %d other starts are under way", MaxStarts)

// waitingForStart returns why a start that is due has not begun.
func (v *View) waitingForStart() *Waiting {
	s := &v.State
	switch {
	case s.Lost:
		return &Waiting{Reason: WaitRuntimeUnknown, Message: engineLost}
	case s.Action.Restart == ByExit && s.Action.GaveUp:
		return &Waiting{Reason: WaitGaveUp, Message: "has ended, and is not started again until somebody resumes it: " + v.Spec.GiveUp.String()}
	case s.Action.Restart == ByExit && s.Lasting.Held():
		return &Waiting{Reason: WaitHeld, Message: "has ended and is held: healthd does not start it", Until: s.Lasting.HeldUntil()}
	case v.Container.NetworkOwnerGone:
		return &Waiting{Reason: WaitNetwork, Message: "shares the network of container " + short(v.Container.NetworkOwner) + ", which is gone: re-create it"}
	case s.Engine.NetworkAway:
		return &Waiting{Reason: WaitNetwork, Message: "shares the network of container " + short(v.Container.NetworkOwner) + ", which does not run"}
	case s.Request.Queued:
		return &Waiting{Reason: WaitRestarting, Message: "its start waits until " + FewerStarts}
	case (s.Lasting.Backoff.Delay == 0 || s.Action.Restart == ByOperator) && s.Request.Error == "":
		return &Waiting{Reason: WaitRestarting, Message: "is being started"}
	}
	message := "back-off " + s.Lasting.Backoff.Delay.String() + " restarting container " + v.Container.Name + " (" + toKeepDown(v.Container.Name) + ")"
	if s.Request.Error != "" {
		message = s.Request.Error
	}
	return &Waiting{Reason: WaitCrashLoop, Message: message, Until: s.Action.NotBefore}
}

// waitingForStop returns who stops a run, and when healthd does.
func (s *State) waitingForStop() *Waiting {
	w := &Waiting{Reason: WaitDraining, Message: "stopped by " + s.stoppedBy()}
	if s.Request.Error != "" {
		w.Message += "; " + s.Request.Error
	}
	switch {
	case s.Run.Hooks[PreStop] == HookRunning:
		w.Message += ", pre_stop hook runs"
	case s.Action.Stopping != NoCause && s.Action.Call == NoCall:
		w.Until = s.Action.NotBefore
	}
	return w
}

func (s *State) stoppedBy() string {
	switch s.Action.Stopping {
	case ByLiveness:
		return "healthd: liveness probe failed"
	case ByStartup:
		return "healthd: startup probe failed"
	case ByOperator:
		return "healthd: an operator asked for a restart"
	case ByPostStart:
		return "healthd: post_start hook failed"
	case ByNetwork:
		return "healthd: the container whose network it shares has a new run"
	}
	return "an operator"
}
