package api

import (
	"fmt"

	"healthd/supervisor/core"
)

// nextHoldEnd says when a hold ends.
func nextHoldEnd(v *core.View) []Next {
	s := &v.State
	switch {
	case !s.Lasting.Held:
		return nil
	case s.Lasting.HeldUntil.IsZero():
		return []Next{{What: "it is held until somebody resumes it (healthd resume " + v.Container.Name + ")"}}
	}
	return []Next{{s.Lasting.HeldUntil, "the hold ends, if nobody resumes it before"}}
}

// nextVerdict is next for a run whose probe or hook failed and whose stop has to wait.
func nextVerdict(v *core.View) []Next {
	s := &v.State
	if s.Health.Failed == core.NoCause {
		return nil
	}
	verdict := "it is restarted"
	if v.Spec.RestartPolicy == core.Never {
		verdict = "it is stopped"
	}
	switch s.Health.Wait.Reason {
	case core.WaitGroupLimit:
		return []Next{{What: fmt.Sprintf("%s when enough others of its group %s are up; it waits for %s", verdict, v.Group, s.Health.Wait.On)}}
	case core.WaitRestartBudget:
		return []Next{{s.Health.Wait.Until, fmt.Sprintf("%s at the earliest; it waits for %s", verdict, s.Health.Wait.On)}}
	}
	return []Next{{What: verdict + " when the hold ends"}}
}
