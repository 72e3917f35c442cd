package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// View is one supervised container as it was at one moment. It is never changed
// after it was made.
type View struct {
	Container *runtime.Container
	Spec      *Spec  // nil when Invalid says why there is none
	Invalid   string // what is wrong with the container's labels
	Identity  string // survives re-creation: compose project/service/number, else the name
	Group     string // compose project/service, else the name
	Service   string // under which it is published; empty when invalid
	State     State
}

// Phase is a container's phase, by the rules of a Pod's.
type Phase string

// The phases.
const (
	PhasePending   Phase = "Pending"
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
	PhaseUnknown   Phase = "Unknown"
)

// Phase returns the container's phase: Running also while a restart is due.
func (v *View) Phase() Phase {
	s := &v.State
	switch {
	case s.Lost:
		return PhaseUnknown
	case s.Engine.Alive():
		return PhaseRunning
	case s.Run == runtime.Run{}: // also when its first start is under way
		return PhasePending
	case s.Engine == runtime.Restarting, s.Restart != NoCause, s.Call == StartCall:
		return PhaseRunning
	case s.Exit.Code == 0:
		return PhaseSucceeded
	}
	return PhaseFailed
}

// ServicePhase follows from the members as a Pod's phase does from its containers: a
// member that has never run holds it at Pending, one that runs or is to be started
// again keeps it Running, and when all have ended for good it is Succeeded only if
// all of them did. One of which nothing is known makes it Unknown. What is wrong with
// labels makes no difference: the engine runs such a container all the same. (kubelet
// getPhase)
func ServicePhase(members []*View) Phase {
	has := make(map[Phase]bool)
	for _, v := range members {
		has[v.Phase()] = true
	}
	for _, p := range []Phase{PhaseUnknown, PhasePending, PhaseRunning, PhaseFailed, PhaseSucceeded} {
		if has[p] {
			return p
		}
	}
	return PhasePending
}

// Started says whether the present run is started, and since when that is so. What
// has ended is not.
func (v *View) Started() (started bool, since time.Time) {
	s := &v.State
	if s.Started && !s.Engine.Alive() {
		return false, later(s.StartedCh, s.Exit.FinishedAt)
	}
	return s.Started, s.StartedCh
}

// RestartsAfter says whether healthd starts a valid container again when it ends by
// itself with that exit code.
func (v *View) RestartsAfter(code int) bool {
	t := stepper{State: v.State, spec: v.Spec, c: v.Container}
	t.Exit.Code = code
	return t.mustStart(ByExit)
}

// Reasons for not being ready, and for a condition being False.
const (
	NotReadyInvalid   = "Invalid"
	NotReadyNotRun    = "NotRunning"
	NotReadyPaused    = "Paused"
	NotReadyDraining  = "Draining"
	NotReadyStarting  = "StartupPending"
	NotReadyPending   = "ReadinessPending"
	NotReadyReadiness = "ReadinessFailed"
	NotReadyPostStart = "PostStartPending"
	NotReadyGates     = "ReadinessGatesNotReady"
)

// Readiness says whether the container takes traffic and, if not, why: a reason
// in one word and a message that may be empty.
func (v *View) Readiness() (ready bool, reason, message string) {
	switch {
	case v.Spec != nil && v.State.Ready:
		return true, "", ""
	case v.Spec == nil, !v.State.ContainerReady:
		return v.ContainerReadiness()
	}
	gate := closedGate(v.Spec, &v.State)
	if _, ok := v.State.Gate(gate); !ok {
		return false, NotReadyGates, "readiness gate " + gate + " was never set"
	}
	return false, NotReadyGates, "readiness gate " + gate + " is False"
}

// Finishing says that the container drains and is ready but for that: it still answers
// what it is sent. One that was not ready before does not.
func (v *View) Finishing() bool {
	s := &v.State
	return v.Spec != nil && s.Draining() && s.Engine == runtime.Running && !s.Died && s.Started &&
		s.Tallies[Readiness].Result != prober.Failure && closedGate(v.Spec, s) == ""
}

// ContainerReadiness is Readiness without the readiness gates.
func (v *View) ContainerReadiness() (ready bool, reason, message string) {
	s := &v.State
	switch {
	case v.Spec == nil:
		return false, NotReadyInvalid, v.Invalid
	case s.ContainerReady:
		return true, "", ""
	case s.Draining():
		return false, NotReadyDraining, ""
	case s.Engine == runtime.Paused:
		return false, NotReadyPaused, ""
	case s.Engine != runtime.Running:
		return false, NotReadyNotRun, string(s.Engine)
	case s.Died:
		return false, NotReadyNotRun, string(runtime.Exited)
	case s.Hooks[PostStart] == HookRunning:
		return false, NotReadyPostStart, "its post_start hook runs"
	case s.Hooks[PostStart] == HookFailed:
		return false, NotReadyPostStart, "its post_start hook failed"
	case s.starting():
		return false, NotReadyPostStart, "its post_start hook is to run"
	case !s.Started:
		return false, NotReadyStarting, s.Tallies[Startup].Last.Output
	case s.Tallies[Readiness].Outcome != prober.Failure:
		return false, NotReadyPending, s.Tallies[Readiness].Last.Output
	}
	return false, NotReadyReadiness, s.Tallies[Readiness].Last.Output
}

// Waiting is what a container waits for, in the form of a Pod's waiting state.
type Waiting struct {
	Reason  string
	Message string
	Until   time.Time // zero when nobody knows
}

// Reasons for waiting.
const (
	WaitCrashLoop      = "CrashLoopBackOff"
	WaitDraining       = "Draining"
	WaitRuntimeUnknown = "RuntimeUnknown"
	WaitRestarting     = "Restarting" // a start without back-off, or the engine's own policy at work
	WaitCreated        = "Created"
	WaitGroupLimit     = "GroupLimit"
	WaitRestartBudget  = "RestartBudget"
	WaitHeld           = "Held"
	WaitNetwork        = "NetworkUnavailable"
)

// Waiting returns what the container waits for, or nil when it does not wait.
func (v *View) Waiting() *Waiting {
	s := &v.State
	switch {
	case s.Restart != NoCause && s.Lost:
		return &Waiting{Reason: WaitRuntimeUnknown, Message: "its engine cannot be heard; nothing is restarted until it can"}
	case s.Restart == ByExit && s.Held:
		return &Waiting{Reason: WaitHeld, Message: "has ended and is held: nothing starts it", Until: s.HeldUntil}
	case s.Restart != NoCause && v.Container.NetworkGone:
		return &Waiting{Reason: WaitNetwork, Message: "shares the network of a container that is gone: it has to be created anew"}
	case s.Restart != NoCause && s.NetworkAway:
		return &Waiting{Reason: WaitNetwork, Message: "shares the network of a container that does not run"}
	case s.Restart != NoCause && (s.Backoff.Delay == 0 || s.Restart == ByOperator) && s.CallError == "":
		return &Waiting{Reason: WaitRestarting, Message: "is being started"}
	case s.Restart != NoCause:
		message := "back-off " + s.Backoff.Delay.String() + " restarting container " + v.Container.Name
		if s.CallError != "" {
			message = s.CallError
		}
		return &Waiting{Reason: WaitCrashLoop, Message: message, Until: s.NotBefore}
	case s.Condemned != NoCause:
		message := "failed " + failedOf(s.Condemned) + ", its restart waits"
		if s.Wait.On != "" {
			message += " for " + s.Wait.On
		}
		return &Waiting{Reason: s.Wait.Reason, Message: message, Until: s.Wait.Until}
	case s.Draining():
		w := &Waiting{Reason: WaitDraining, Message: "stopped by " + s.stoppedBy()}
		switch {
		case s.Hooks[PreStop] == HookRunning:
			w.Message += ", pre_stop hook runs"
		case s.Stopping != NoCause && s.Call == NoCall:
			w.Until = s.NotBefore
		}
		return w
	case s.Engine == runtime.Restarting:
		return &Waiting{Reason: WaitRestarting, Message: "the engine's own restart policy is at work"}
	case !s.Engine.Alive() && s.Run == runtime.Run{}:
		return &Waiting{Reason: WaitCreated}
	}
	return nil
}

func (s *State) stoppedBy() string {
	switch s.Stopping {
	case ByLiveness:
		return "healthd: liveness probe failed"
	case ByStartup:
		return "healthd: startup probe failed"
	case ByOperator:
		return "healthd: restart asked for"
	case ByPostStart:
		return "healthd: post_start hook failed"
	case ByNetwork:
		return "healthd: the container whose network it shares has a new run"
	}
	return "somebody else"
}
