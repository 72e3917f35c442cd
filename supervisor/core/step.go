package core

import (
	"time"

	"healthd/runtime"
)

// Step returns the state that follows s after an input, and what the caller has to do: it is in the
// room, and valid until the next step there. It changes no other argument; s is passed by reference
// because a copy costs as much as a decision. c is the container as last inspected; if the input has a
// Container, c is that one.
//
// The caller publishes the new state first, so that readiness is withdrawn before a stop,
// and then carries out the effects in their order.
func Step(spec *Spec, c *runtime.Container, s *State, in *Input, now time.Time, room *Room) (State, []Effect) {
	t := room.begin(s, spec, c, now)
	t.crowded, t.startsFull = in.Crowded, in.StartsFull
	if !in.EngineNow.IsZero() {
		t.engineNow = in.EngineNow
	}
	t.apply(in)
	if in.Early {
		t.setReadiness()
		return t.end(s)
	}
	t.forgetSignals(in)
	t.endHold()
	t.engineGivesUp()
	t.dialEngine()
	t.stopFailedRun(in)
	t.followNetworkOwner()
	t.abandonStop()
	t.setReadiness()
	t.callEngine()
	t.runPostStart()
	t.scheduleProbes(in)
	t.runProbes()
	return t.end(s)
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
		t.stopSent()
	case CallReturned:
		t.callReturned(in)
	case HookEnded:
		t.hookEnded(in.Hook, in.HookResult)
	case GateSet:
		t.setGate(in.Gate, in.Status)
	case HoldRequested:
		t.hold(in.Time)
	case FleetHolds:
		t.holdByFleet(in.Hold)
	case ResumeRequested:
		t.resumeRequested()
	case HoldEnded:
		t.holdEnded()
	case SpecChanged:
		t.changeSpec(in.OldSpec)
	case RestartRequested:
		t.requestRestart()
	case ConnectionsDrained:
		t.endDrain()
	case Withdrawn:
		t.withdrawn()
	case RuntimeLost:
		t.Lost, t.Health.Failed = true, NoCause // the first failure after the engine's return decides
	case RuntimeBack:
		t.Lost, t.Ending.MaybeEnded = false, false
		if !in.NotInspected { // inspected, and unchanged: the restart did not end the run
			t.EngineRestarted = false
		}
	case EngineRestarted:
		t.engineRestarted()
	case EndedBeforeEngine:
		t.endedBeforeEngine()
	case EngineLivedOn:
		t.engineLivedOn()
	case EngineAccepts:
		t.engineAccepts(in.Time)
	case ShutdownBegun:
		t.beginShutdown(in.Time)
	}
}
