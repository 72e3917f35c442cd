package api

import (
	"fmt"

	"healthd/supervisor/core"
)

// nextOfHold is the end of a hold.
func nextOfHold(v *core.View) []Next {
	s := &v.State
	switch {
	case !s.Held:
		return nil
	case s.HeldUntil.IsZero():
		return []Next{{What: "it is held until somebody resumes it (healthd resume " + v.Container.Name + ")"}}
	}
	return []Next{{s.HeldUntil, "the hold ends, if nobody resumes it before"}}
}

// nextVerdict is of a run that is to be stopped for a probe or hook, which has to
// wait.
func nextVerdict(v *core.View) []Next {
	s := &v.State
	if s.Condemned == core.NoCause {
		return nil
	}
	verdict := "it is restarted"
	if v.Spec.RestartPolicy == core.Never {
		verdict = "it is stopped"
	}
	switch s.Wait.Reason {
	case core.WaitGroupLimit:
		return []Next{{What: fmt.Sprintf("%s when enough others of its group %s are up; it waits for %s", verdict, v.Group, s.Wait.On)}}
	case core.WaitRestartBudget:
		return []Next{{s.Wait.Until, fmt.Sprintf("%s at the earliest; it waits for %s", verdict, s.Wait.On)}}
	}
	return []Next{{What: verdict + " when the hold ends"}}
}
