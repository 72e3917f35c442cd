package api

import (
	"fmt"

	"healthd/supervisor/core"
)

// nextHoldEnd says when a hold ends.
func nextHoldEnd(v *core.View) []Next {
	s := &v.State
	switch {
	case !s.Lasting.Held():
		return nil
	case s.Lasting.HeldByFleet():
		return []Next{{What: fmt.Sprintf("the hold lasts until that on all hosts ends (healthd resume --fleet %s), or healthd resume %s ends it for this container",
			v.Service, v.Container.Name)}}
	case s.Lasting.HeldUntil().IsZero():
		return []Next{{What: "the hold lasts until somebody ends it (healthd resume " + v.Container.Name + ")"}}
	}
	return []Next{{s.Lasting.HeldUntil(), "the hold ends, unless somebody ends it earlier"}}
}

// nextVerdict is next for a run whose probe or hook failed and whose stop has to wait.
func nextVerdict(v *core.View) []Next {
	s := &v.State
	if s.Health.Failed == core.NoCause {
		return nil
	}
	verdict := "healthd " + pendingCall(v) + "s it"
	if !s.Health.Wait.Asked.IsZero() {
		return []Next{{What: "its turn has come: " + verdict + " if its liveness probe, which is asked once more, fails again"}}
	}
	switch s.Health.Wait.Reason {
	case core.WaitGroupLimit:
		return []Next{{What: fmt.Sprintf("%s when enough other members of group %s are up; it waits for %s", verdict, v.Group, s.Health.Wait.On)}}
	case core.WaitGaveUp:
		return []Next{{What: fmt.Sprintf("healthd has given up, after %v: it does not %s it until %s (healthd resume %s)",
			v.Spec.GiveUp, pendingCall(v), s.Health.EndOfGivingUp(), v.Container.Name)}}
	case core.WaitObserved:
		return []Next{{What: "healthd would " + pendingCall(v) + " it, and only observes it (mode observe)"}}
	case core.WaitRestartBudget, core.WaitHostSuspect:
		return []Next{{s.Health.Wait.Until, fmt.Sprintf("%s at the earliest; it waits for %s", verdict, s.Health.Wait.On)}}
	}
	return []Next{{What: verdict + " when the hold ends"}}
}

// pendingCall names what healthd does to a run whose probe or hook failed.
func pendingCall(v *core.View) string {
	if v.Spec.RestartPolicy == core.Never || v.Spec.OnFailure == core.StopFailed && v.State.Health.Failed != core.ByPostStart {
		return "stop"
	}
	return "restart"
}

// afterRecovery says what follows when the probe that failed succeeds again.
func afterRecovery(v *core.View) string {
	if w := v.State.Health.Wait.Reason; w == core.WaitGaveUp || w == core.WaitObserved {
		return "it has recovered"
	}
	return "healthd cancels the " + pendingCall(v)
}
