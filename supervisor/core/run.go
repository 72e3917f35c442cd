package core

import (
	"slices"
	"time"

	"healthd/prober"
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

// observed takes in what the engine says the container is now.
func (t *stepper) observed(in *Input) {
	withEngine := t.EngineRestarted && (t.Engine.State.Alive() || t.Action.Restart != NoCause)
	t.EngineRestarted = false
	if run := t.c.Run(); run != t.Run.ID && run != (runtime.Run{}) {
		t.begin(run, in.Unwatched)
	}
	t.Engine.State, t.Run.Died = t.c.State, false
	t.Engine.NetworkAway = t.c.NetworkOwner != "" && t.c.NetworkOwnerStartedAt.IsZero()
	t.checkResources()
	if !t.Engine.State.Alive() && (!in.Unwatched || t.Run.ID == runtime.Run{}) {
		t.failAll()
	}
	if !t.Engine.State.Alive() && t.Run.ID != (runtime.Run{}) && t.Run.Exit.FinishedAt.IsZero() {
		t.end(in.Unwatched, withEngine)
	}
}

// checkResources forgets the back-off when somebody gave the container other
// resources: what it failed for may be mended. (kubelet GetBackoffKey)
func (t *stepper) checkResources() {
	changed := t.Engine.Resources != t.c.Resources
	t.Engine.Resources = t.c.Resources
	if !changed || t.Run.ID == (runtime.Run{}) || !t.Lasting.Backoff.Active {
		return
	}
	t.Lasting.Backoff = BackoffState{}
	if t.Action.Restart != NoCause && t.Request.Error == "" {
		t.Action.NotBefore = t.now
	}
}

// failAll makes every probe of a container that does not run a Failure, as the
// kubelet does.
func (t *stepper) failAll() {
	for i := range t.Health.Probes {
		if t.spec.Probes[i] != nil {
			t.Health.Probes[i].Result = prober.Failure
		}
	}
}

// stale says that c was inspected before what is known already: observations come
// from several requests to the engine, and may overtake one another.
func (s *State) Stale(c *runtime.Container) bool {
	run := c.Run()
	if run == (runtime.Run{}) {
		return s.Run.ID != run
	}
	return run == s.Run.Before || run == s.Run.ID && c.State.Alive() && !s.Run.Exit.FinishedAt.IsZero()
}

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
	started := Condition{Status: t.spec.Probes[Startup] == nil && !t.starting(), Since: t.now}
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

// ran is how long the run that has ended lasted: by the engine's clock, but no longer
// than by ours, which nobody sets.
func (t *stepper) ran() time.Duration {
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

// mustStart is the restart decision. (kubelet ShouldContainerBeRestarted) What
// healthd stopped for a failure is started again under OnFailure also when it exited
// with 0.
func (t *stepper) mustStart(cause Cause) bool {
	switch {
	case t.c.AutoRemove:
		return false
	case cause == ByOperator:
		return true
	case cause == ByExit && t.enginePolicy():
		return false
	case t.spec.ruleApplies(t.Run.Exit.Code):
		return true
	case cause != ByExit:
		return t.spec.RestartPolicy != Never
	}
	switch t.spec.RestartPolicy {
	case Always:
		return true
	case OnFailure:
		return t.Run.Exit.Code != 0
	}
	return false
}

// ruleApplies says whether a restart rule wants a start after that exit code.
func (spec *Spec) ruleApplies(code int) bool {
	return slices.ContainsFunc(spec.RestartRules, func(r RestartRule) bool {
		return slices.Contains(r.ExitCodes, code) == (r.Operator == In)
	})
}

// enginePolicy says that the engine itself restarts the container when it exits.
func (t *stepper) enginePolicy() bool {
	return t.c.RestartPolicy != "" && t.c.RestartPolicy != "no"
}

// stopSettle is how long the start of a run that once survived a stopping signal
// waits for news that its end was asked for after all, with a long timeout.
const stopSettle = 2 * time.Second

// scheduleStart plans the start that follows the end of the run, counted from it.
func (t *stepper) scheduleStart(cause Cause) {
	t.Action.Restart, t.Action.NotBefore = cause, t.now
	if cause != ByOperator {
		t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, t.ran())
		// By the engine's clock, but not longer than by ours.
		since := max(0, min(t.now.Sub(t.Run.Exit.FinishedAt), t.now.Sub(t.Health.AliveAt)))
		t.Action.NotBefore = t.now.Add(max(0, t.Lasting.Backoff.Delay-since))
		if t.Lasting.Backoff.Delay > 0 {
			t.record(EventBackOff, "Back-off %v restarting failed container %s", t.Lasting.Backoff.Delay, t.c.Name)
		}
	}
	if t.Ending.Survived && cause == ByExit {
		t.Action.NotBefore = later(t.Action.NotBefore, t.now.Add(stopSettle))
	}
	if t.Shutdown.Begun && !t.Shutdown.LeftOver {
		t.Action.NotBefore = t.now
	}
}

// grace is the time between the stop signal and the kill: as configured, but never
// under MinGrace.
func grace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	return max(configuredGrace(spec, c, cause), MinGrace)
}

// configuredGrace is the failed probe's grace period, else the spec's, else the
// container's own, else DefaultGrace.
func configuredGrace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	g := DefaultGrace
	if c.StopTimeout >= 0 {
		g = c.StopTimeout
	}
	if spec.TerminationGracePeriod > 0 {
		g = spec.TerminationGracePeriod
	}
	var p *ProbeSpec
	switch cause {
	case ByLiveness:
		p = spec.Probes[Liveness]
	case ByStartup:
		p = spec.Probes[Startup]
	}
	if p != nil && p.TerminationGracePeriod > 0 {
		g = p.TerminationGracePeriod
	}
	return g
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}
