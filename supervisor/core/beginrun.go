package core

import (
	"time"

	"healthd/runtime"
)

// beginRun replaces all groups that belong to a run. found: the run began before healthd
// saw it begin.
func (t *stepper) beginRun(run runtime.Run, found bool) {
	if t.Run.ID != (runtime.Run{}) {
		if t.Run.Exit.FinishedAt.IsZero() {
			t.Run.Exit = t.exit(t.Run.DiedCode) // healthd did not see its end
		}
		t.countRestart()
	}
	before := t.State
	t.Run = Run{ID: run, Before: before.Run.ID, StartedAt: t.c.StartedAt, LastExit: before.Run.Exit}
	if t.spec.Lifecycle.PostStart != nil && !found && t.c.State.Alive() {
		t.Run.Hooks[PostStart] = HookDue
	}
	t.Action = Action{Call: before.Action.Call}
	t.Request.Error = ""
	t.Engine.NetworkLost = false // told once in each run
	t.Ending, t.Checks = before.Ending.next(t.c.StartedAt), Checks{}
	if t.Ending.MaybeEngine {
		t.Checks = Checks{MaybeEngineSince: before.Checks.MaybeEngineSince, DialAt: before.Checks.DialAt}
	}
	t.Health = newHealth(t.spec, t.c, t.now)
	t.Shutdown.RunBegan, t.Shutdown.LeftOver = t.Shutdown.Begun, false
	t.beginConditions(&before)
	if !found {
		t.record(EventStarted, "Started container %s", t.c.Name)
	}
}

// countRestart counts a restart by healthd, or by the engine's own policy after an exit.
// An operator's stop and start is no restart.
func (t *stepper) countRestart() {
	switch {
	case t.Action.Restart != NoCause && (t.Action.Call == StartCall || t.Request.Error != ""): // a start call that failed may have been carried out all the same
		t.Lasting.Restarts[t.Action.Restart]++
	case t.enginePolicy() && t.Ending.By != EndedByOperator && !t.Ending.Signalled():
		t.Lasting.Restarts[ByExit]++
	}
}

// runDuration returns how long the ended run lasted: by the engine's clock, but no longer
// than by healthd's, which is monotonic.
func (t *stepper) runDuration() time.Duration {
	return min(t.Run.Exit.FinishedAt.Sub(t.Run.Exit.StartedAt), t.now.Sub(t.Health.BeganAt))
}

// exit returns the Exit of the present run.
func (t *stepper) exit(code int) Exit {
	c := *t.c
	c.StartedAt, c.ExitCode = t.Run.StartedAt, code
	e := exitOf(&c)
	if e.FinishedAt.Before(e.StartedAt) {
		e.FinishedAt = t.now
	}
	switch t.Action.Stopping {
	case ByLiveness:
		e.Reason = ReasonLivenessFailed
	case ByStartup:
		e.Reason = ReasonStartupFailed
	case ByPostStart:
		e.Reason = ReasonError
	}
	return e
}
