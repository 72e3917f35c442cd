package core

import (
	"time"

	"healthd/runtime"
)

// Run is what belongs to one run of the container. A new run begins with a new one.
type Run struct {
	ID        runtime.Run         `json:"id"`
	Before    runtime.Run         `json:"before,omitzero"`    // the run before; zero: none seen
	StartedAt time.Time           `json:"startedAt,omitzero"` // as the engine told it
	Hooks     [numHooks]HookState `json:"hooks,omitzero"`
	Died      bool                `json:"died,omitempty"`     // an event told its end, and no inspection yet
	DiedCode  int                 `json:"diedCode,omitempty"` // the exit code of that event
	Exit      Exit                `json:"exit,omitzero"`      // its end, when it has ended
	LastExit  Exit                `json:"lastExit,omitzero"`  // end of the run before; zero FinishedAt: none
}

// Exit is how a run ended.
type Exit struct {
	Code       int
	Reason     string // Completed, Error, OOMKilled, StoppedByOperator, LivenessFailed, StartupFailed
	StartedAt  time.Time
	FinishedAt time.Time
}

// The reasons of an Exit.
const (
	ReasonCompleted         = "Completed"
	ReasonError             = "Error"
	ReasonOOMKilled         = "OOMKilled"
	ReasonStoppedByOperator = "StoppedByOperator"
	ReasonLivenessFailed    = "LivenessFailed"
	ReasonStartupFailed     = "StartupFailed"
)

// begin starts a new run: all groups that belong to a run are new ones.
func (t *stepper) begin(run runtime.Run, found bool) {
	if t.Run.ID != (runtime.Run{}) {
		if t.Run.Exit.FinishedAt.IsZero() {
			t.Run.Exit = t.exit(t.Run.DiedCode) // its end went unseen
		}
		t.count()
	}
	before := t.State
	t.Run = Run{ID: run, Before: before.Run.ID, StartedAt: t.c.StartedAt, LastExit: before.Run.Exit}
	if t.spec.Lifecycle.PostStart != nil && !found && t.c.State.Alive() {
		t.Run.Hooks[PostStart] = HookDue
	}
	t.Action = Action{Call: before.Action.Call}
	t.Request.Error = ""
	t.Ending, t.Checks = before.Ending.next(t.c.StartedAt), Checks{}
	if t.Ending.MaybeEngine {
		t.Checks = Checks{DoubtfulSince: before.Checks.DoubtfulSince, DialAt: before.Checks.DialAt}
	}
	t.Health = newHealth(t.spec, t.c, t.now)
	t.Shutdown.RunBegan, t.Shutdown.LeftOver = t.Shutdown.Begun, false
	t.beginConditions(&before)
	if !found {
		t.record(EventStarted, "Started container %s", t.c.Name)
	}
}

// beginConditions starts a run unstarted, unless nothing tells when it is started.
// Whether it is ready follows when all is known.
func (t *stepper) beginConditions(before *State) {
	started := Condition{Status: t.spec.Probes[Startup] == nil && !t.postStartPending(), Since: t.now}
	if v := (View{State: *before}); !started.Status && !before.Conditions.Started.Since.IsZero() { // as it was before
		_, started.Since = v.Started()
	}
	t.Conditions.Started = started
	if t.Conditions.Ready.Since.IsZero() {
		t.Conditions.Ready.Since, t.Conditions.ContainerReady.Since = t.now, t.now
	}
}

// count counts a restart: ours, or the engine's own after an exit. What somebody
// else stopped and started was no restart.
func (t *stepper) count() {
	switch {
	case t.Action.Restart != NoCause && (t.Action.Call == StartCall || t.Request.Error != ""): // whose answer may be lost
		t.Lasting.Restarts[t.Action.Restart]++
	case t.enginePolicy() && t.Ending.By != EndedByOperator && !t.Ending.Signalled():
		t.Lasting.Restarts[ByExit]++
	}
}

// runDuration is how long the run that has ended lasted: by the engine's clock, but no longer
// than by ours, which nobody sets.
func (t *stepper) runDuration() time.Duration {
	return min(t.Run.Exit.FinishedAt.Sub(t.Run.Exit.StartedAt), t.now.Sub(t.Health.BeganAt))
}

// exit describes the end of the present run.
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

// exitOf is the end of a container's last run as its engine tells it, which says
// nothing while it is alive.
func exitOf(c *runtime.Container) Exit {
	e := Exit{Code: c.ExitCode, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt, Reason: ReasonError}
	switch {
	case c.OOMKilled:
		e.Reason = ReasonOOMKilled
	case c.ExitCode == 0:
		e.Reason = ReasonCompleted
	}
	return e
}
