package core

import (
	"time"

	"healthd/prober"
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
	before := t.State.Copy()
	t.Run = Run{ID: run, Before: before.Run.ID, StartedAt: t.c.StartedAt, BeganAt: t.now.Add(-t.ageOf(&before)), LastExit: before.Run.Exit}
	t.Run.LastByItself = before.Ending.By == EndedByItself
	t.Run.Network = t.sharedNetwork(before.Engine.NetworkStartedAt)
	if t.spec.Lifecycle.PostStart != nil && !found && t.c.State.Alive() {
		t.Run.Hooks[PostStart] = HookDue
	}
	if t.Action.GaveUp { // somebody else started it
		t.Restarted = nil
	}
	t.Action = Action{Call: before.Action.Call}
	t.Request.Error, t.Request.SentAt = "", time.Time{}
	t.Request.Told = before.Action.Call == StopCall && before.Ending.OwnSignals >= before.Action.StopCalls
	t.Engine.NetworkLost = false // told once in each run
	t.Engine.Addressed = false
	t.Ending, t.Checks = before.Ending.next(run), Checks{}
	if t.Ending.MaybeEngine {
		t.Checks = Checks{MaybeEngineSince: before.Checks.MaybeEngineSince, DialAt: before.Checks.DialAt}
	}
	t.Health = newHealth(t.spec)
	t.Shutdown.RunBegan, t.Shutdown.LeftOver = t.Shutdown.Begun, false
	t.beginConditions(&before)
	if !found {
		t.record(EventStarted, "Started container %s", t.c.Name)
	}
}

// resumeRun takes back that the run has ended: its engine was wrong. As in a run that a new daemon finds, the probes
// count afresh, and what was started stays so.
func (t *stepper) resumeRun() {
	t.Run.Exit, t.Run.EndedAt, t.Run.DiedCode = Exit{}, time.Time{}, 0
	t.Run.EngineTries, t.Run.EngineGaveUp = false, false
	t.Action, t.Request.Error = Action{Call: t.Action.Call}, ""
	t.Ending, t.Checks = Ending{Heard: t.Ending.Heard, Survived: t.Ending.Survived || t.Ending.Signalled()}, Checks{}
	t.Health = newHealth(t.spec)
	if y := &t.Health.Probes[Startup]; t.spec.Probes[Startup] != nil && t.Conditions.Started.Status {
		y.Result, y.OnHold = prober.Success, true
	}
	t.record(EventStarted, "Container %s runs on: its engine had shown by mistake that it had ended", t.c.Name)
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

// ageOf returns how long ago the new run began: by the engine's clock, but after the engine
// last showed another run or none.
func (t *stepper) ageOf(before *State) time.Duration {
	age := max(0, t.engineNow.Sub(t.c.StartedAt))
	if seen := before.Health.SeenAt; !seen.IsZero() {
		age = min(age, t.now.Sub(seen))
	}
	return age
}

// sinceEnd returns how long ago the run ended: by the engine's clock, but after it was alive
// for certain.
func (t *stepper) sinceEnd() time.Duration {
	since := max(0, t.engineNow.Sub(t.c.FinishedAt))
	if alive := t.Health.AliveAt; !alive.IsZero() {
		since = min(since, t.now.Sub(alive))
	}
	return since
}

// runDuration returns how long the ended run lasted: by the engine's clock, within what
// healthd's clock allows, which nobody sets.
func (t *stepper) runDuration() time.Duration {
	d := min(t.Run.Exit.FinishedAt.Sub(t.Run.Exit.StartedAt), t.now.Sub(t.Run.BeganAt))
	if alive := t.Health.AliveAt; !alive.IsZero() {
		d = max(d, alive.Sub(t.Run.BeganAt))
	}
	return max(0, d)
}

// exit returns the Exit of the present run.
func (t *stepper) exit(code int) Exit {
	c := *t.c
	c.StartedAt, c.ExitCode = t.Run.StartedAt, code
	e := exitOf(&c)
	if e.FinishedAt.Before(e.StartedAt) { // of the run before, or the clock was set back
		e.FinishedAt = t.engineNow
	}
	switch t.Action.Stopping {
	case ByLiveness:
		e.Reason = ReasonLivenessFailed
	case ByStartup:
		e.Reason = ReasonStartupFailed
	case ByPostStart:
		e.Reason = ReasonError
	case ByOperator, ByNetwork:
		const signalled = 128
		if e.Code == signalled+t.c.StopSignalNumber() { // it did as healthd told it
			e.Reason = ReasonCompleted
		}
	}
	return e
}
