package core

import (
	"time"

	"healthd/prober"
)

// NeedsGuard says that the step for the input may restart the container for a failed probe
// or hook. The caller then sets Input.Wait, because a zero Wait lets the restart begin.
func NeedsGuard(s *State, in *Input) bool {
	switch {
	case s.Health.Failed != NoCause, s.Run.Hooks[PostStart] == HookFailed:
		return true
	case in.Kind == ProbeAnswered:
		return in.Result.Outcome == prober.Failure
	}
	return in.Kind == HookEnded && in.HookResult.Err != nil
}

// failRun notes that the run is to be stopped for a failed probe or hook. While healthd
// cannot reach the engine it notes nothing: the next failure calls failRun again.
func (t *stepper) failRun(cause Cause) {
	// The engine removes a --rm container when it stops.
	if !t.Lost && !t.c.AutoRemove && t.Action.Stopping == NoCause {
		t.Health.Failed = cause
	}
}

// tellFailure records the failure of a probe that healthd does not act upon.
func (t *stepper) tellFailure(cause Cause, before prober.Outcome) {
	if before != prober.Failure {
		t.recordFor(cause, EventUnhealthy, "Container %s failed %s. healthd leaves it as it is (on_failure none)", t.c.Name, failureOf(cause))
	}
}

// recoverRun cancels a restart that still waits, because its probe succeeds again.
func (t *stepper) recoverRun(cause Cause) {
	reason := t.Health.Wait.Reason
	switch {
	case t.StopRefused() && t.Action.Stopping == cause:
		t.recordFor(cause, EventEngineRefused,
			"Container %s has recovered. healthd gives up its restart, which the engine did not allow", t.c.Name)
		t.giveUpStop()
		return
	case t.Health.Failed == cause:
	case t.Health.Failed == NoCause && t.Action.GaveUp: // since before its engine, or healthd, was away
		reason = WaitGaveUp
	default:
		return
	}
	if reason != WaitObserved { // who counts these events counts restarts
		t.recordFor(cause, reason, "Container %s has recovered. healthd does not restart it", t.c.Name)
	}
	t.Health.Failed, t.Health.Wait, t.Action.GaveUp = NoCause, Wait{}, false
}

// stopFailedRun stops a run whose probe or hook failed, unless the restart has to wait.
func (t *stepper) stopFailedRun(in *Input) {
	wait := in.Wait
	if t.Run.Hooks[PostStart] == HookFailed { // a probe fails again after its period, a hook does not
		t.failRun(ByPostStart)
	}
	switch {
	case t.Health.Failed == NoCause, !t.runs(), t.Draining(), t.Lost, t.Shutdown.Begun:
		t.Health.Failed, t.Health.Wait, t.Health.Waiting = NoCause, Wait{}, time.Time{}
		t.Action.GaveUp = t.Action.GaveUp && t.staysGivenUp()
		return
	case t.Lasting.Held():
		wait = Wait{Reason: WaitHeld, Until: t.Lasting.HeldUntil()}
	case t.spec.Observe:
		wait = Wait{Reason: WaitObserved}
	case t.spec.RestartPolicy != Never && !t.quarantines(t.Health.Failed) && t.mustGiveUp(t.Health.Failed):
		t.giveUp()
		wait = Wait{Reason: WaitGaveUp}
	case wait.Reason == "" && t.asksOnceMore():
		wait = t.askOnceMore()
	default:
		wait.Asked = time.Time{}
	}
	if wait.Reason != "" {
		if wait.Reason != t.Health.Wait.Reason {
			t.recordWait(wait)
		}
		t.Health.Wait = wait
		if !wait.ByGuard() {
			t.Health.Waiting = time.Time{}
		} else if t.Health.Waiting.IsZero() {
			t.Health.Waiting = t.now
		}
		return
	}
	cause := t.Health.Failed
	t.Health.Failed, t.Health.Wait, t.Health.Waiting = NoCause, Wait{}, time.Time{}
	for _, probe := range []ProbeType{Startup, Liveness} {
		if y := &t.Health.Probes[probe]; causeOf(probe) == cause {
			y.OnHold, y.Run = true, 0
		}
	}
	last := ""
	if in.LastUp != "" {
		last = ", although it is the last server up in " + in.LastUp
	}
	t.recordFor(cause, EventKilling, "Container %s failed %s, will be %s%s", t.c.Name, failureOf(cause), t.whatFollows(cause), last)
	t.stop(cause)
}

// asksOnceMore says that a restart whose turn has come asks the liveness probe first: it has waited for longer than a
// period, so that the run may be well again.
func (t *stepper) asksOnceMore() bool {
	y := &t.Health.Probes[Liveness]
	fails := y.Last.Outcome == prober.Failure && y.LastAt.Equal(t.now)
	return t.Health.Failed == ByLiveness && !fails && t.Health.Wait.ByGuard() && t.shouldProbe(Liveness) &&
		t.now.Sub(t.Health.Waiting) > t.spec.Probes[Liveness].Period
}

// askOnceMore has the liveness probe asked now, unless it was already, and returns the wait for that.
func (t *stepper) askOnceMore() Wait {
	wait := Wait{Reason: t.Health.Wait.Reason, On: "its liveness probe, which is asked once more", Asked: t.Health.Wait.Asked}
	if wait.Asked.IsZero() {
		wait.Asked = t.now
		if y := &t.Health.Probes[Liveness]; !y.Running {
			y.Due = t.now
		}
	}
	return wait
}

// whatFollows says what becomes of a run that failed. The words are the kubelet's.
func (t *stepper) whatFollows(cause Cause) string {
	switch {
	case t.spec.ManagedElsewhere != "":
		return "stopped (managed by " + t.spec.ManagedElsewhere + ")"
	case t.quarantines(cause):
		return "stopped (on_failure stop)"
	case t.spec.RestartPolicy == Never && len(t.spec.RestartRules) > 0:
		return "stopped (restart policy Never), and restarted if a restart rule matches its exit code"
	case t.spec.RestartPolicy == Never:
		return "stopped (restart policy Never)"
	}
	return "restarted"
}

// EndOfGivingUp says what ends the wait of a run that failed too often. A hook does not run again
// in the run.
func (h *Health) EndOfGivingUp() string {
	if h.Failed == ByPostStart {
		return "somebody resumes it"
	}
	return "it recovers or somebody resumes it"
}

// recordWait records why a restart waits. The loop records WaitRestartBudget and WaitHostSuspect, once for all
// containers of the host.
func (t *stepper) recordWait(wait Wait) {
	switch wait.Reason {
	case WaitGroupLimit:
		t.recordFor(t.Health.Failed, WaitGroupLimit, "Container %s failed %s, its restart waits for %s", t.c.Name, failureOf(t.Health.Failed), wait.On)
	case WaitGaveUp:
		t.recordFor(t.Health.Failed, EventGaveUp, "Container %s failed %s. It is not restarted, after %v, until %s (healthd resume %[1]s)",
			t.c.Name, failureOf(t.Health.Failed), t.spec.GiveUp, t.Health.EndOfGivingUp())
	case WaitObserved:
		t.recordFor(t.Health.Failed, EventWouldRestart, "Container %s failed %s, would be %s. healthd only observes it", t.c.Name, failureOf(t.Health.Failed), t.whatFollows(t.Health.Failed))
	case WaitHeld:
		t.recordFor(t.Health.Failed, EventHeld, "Container %s failed %s. healthd does not restart it while it is held", t.c.Name, failureOf(t.Health.Failed))
	}
}
