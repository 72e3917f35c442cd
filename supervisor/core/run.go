package core

import (
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// observed takes in what the engine says the container is now.
func (t *stepper) observed(in *Input) {
	meant := in.EngineRestarted && (t.Engine.Alive() || t.Restart != NoCause) // and the engine's end was its end
	if run := t.c.Run(); run != t.Run && run != (runtime.Run{}) {
		t.begin(run, in.Unwatched)
	}
	t.Engine, t.Died = t.c.State, false
	t.NetworkAway = t.c.NetworkOf != "" && t.c.NetworkSince.IsZero()
	t.checkResources()
	if !t.Engine.Alive() && (!in.Unwatched || t.Run == runtime.Run{}) {
		t.failAll()
	}
	if !t.Engine.Alive() && t.Run != (runtime.Run{}) && t.Exit.FinishedAt.IsZero() {
		t.end(in.Unwatched, meant)
	}
}

// checkResources forgets the back-off when somebody gave the container other
// resources: what it failed for may be mended. (kubelet GetBackoffKey)
func (t *stepper) checkResources() {
	changed := t.Resources != t.c.Resources
	t.Resources = t.c.Resources
	if !changed || t.Run == (runtime.Run{}) || !t.Backoff.Active {
		return
	}
	t.Backoff = BackoffState{}
	if t.Restart != NoCause && t.CallError == "" {
		t.NotBefore = t.now
	}
}

// failAll makes every probe of a container that does not run a Failure, as the
// kubelet does.
func (t *stepper) failAll() {
	for i := range t.Tallies {
		if t.spec.Probes[i] != nil {
			t.Tallies[i].Result = prober.Failure
		}
	}
}

// stale says that c was inspected before what is known already: observations come
// from several requests to the engine, and may overtake one another.
func (s *State) Stale(c *runtime.Container) bool {
	run := c.Run()
	if run == (runtime.Run{}) {
		return s.Run != run
	}
	return run == s.RunBefore || run == s.Run && c.State.Alive() && !s.Exit.FinishedAt.IsZero()
}

// begin starts the books of a new run. All that probes said belongs to the run
// before; back-off and counts go on.
func (t *stepper) begin(run runtime.Run, found bool) {
	if t.Run != (runtime.Run{}) {
		if t.Exit.FinishedAt.IsZero() {
			t.Exit = t.exit(t.DiedCode) // its end went unseen
		}
		t.LastExit = t.Exit
		t.count()
	}
	s := State{
		Run: run, RunBefore: t.Run, StartedAt: t.c.StartedAt, BeganAt: t.now.Add(-max(0, t.now.Sub(t.c.StartedAt))),
		LastExit: t.LastExit, Ready: t.Ready, ReadyCh: t.ReadyCh, Gates: t.Gates,
		ContainerReady: t.ContainerReady, ContainerReadyCh: t.ContainerReadyCh,
		StartedCh: t.now, Tallies: t.Tallies, Resources: t.Resources, HTTPFallbacks: t.HTTPFallbacks, Call: t.Call, CallMade: t.CallMade, CallRun: t.CallRun, CallCause: t.CallCause, Backoff: t.Backoff, Restarts: t.Restarts,
		AliveAt: t.now, Lost: t.Lost, ShuttingDown: t.ShuttingDown, LastRun: t.ShuttingDown,
		Held: t.Held, HeldUntil: t.HeldUntil,
	}
	if !t.KilledLast.Before(t.c.StartedAt) { // the signal was for this run and its news faster
		s.KilledAt, s.KilledLast, s.KillForgotten = t.KilledLast, t.KilledLast, t.KillForgotten
		s.Doubtful, s.DoubtAt, s.AskAt = t.Doubtful, t.DoubtAt, t.AskAt
	}
	if s.ReadyCh.IsZero() {
		s.ReadyCh, s.ContainerReadyCh = t.now, t.now
	}
	if t.spec.Lifecycle.PostStart != nil && !found && t.c.State.Alive() {
		s.Hooks[PostStart] = HookDue
	}
	s.Started = t.spec.Probes[Startup] == nil && !s.starting()
	if v := (&View{State: t.State}); !s.Started && !t.StartedCh.IsZero() { // as it was before
		_, s.StartedCh = v.Started()
	}
	for i := range s.Tallies {
		s.Tallies[i].reset(t.spec.Probes[i], ProbeType(i))
	}
	t.State = s
	if !found {
		t.record(EventStarted, "Started container %s", t.c.Name)
	}
}

// count counts a restart: ours, or the engine's own after an exit. What somebody
// else stopped and started was no restart.
func (t *stepper) count() {
	switch {
	case t.Restart != NoCause && (t.Call == StartCall || t.CallError != ""): // whose answer may be lost
		t.Restarts[t.Restart]++
	case t.enginePolicy() && !t.OperatorStopped && t.KilledAt.IsZero():
		t.Restarts[ByExit]++
	}
}

// end decides what the end of a run means and whether a start follows. found says
// that nobody watched it, meant that it was to run on, but its engine or host was
// started anew.
func (t *stepper) end(found, meant bool) {
	t.Exit, t.CallError = t.exit(t.c.ExitCode), ""
	if t.ran() > t.spec.Backoff.ResetAfter {
		t.Backoff = BackoffState{} // whoever ended it
	}
	cause := ByExit
	switch {
	case !t.KilledAt.IsZero(): // also when it joined a stop of ours: they want it stopped
		t.stayStopped()
		return
	case t.Stopping != NoCause:
		cause = t.Stopping
	case meant:
		t.startAgain()
		return
	case found:
		t.record(EventExited, "Container %s was found stopped (exit code %d), is left alone", t.c.Name, t.Exit.Code)
		return
	}
	reason := EventExited
	if t.c.OOMKilled {
		reason = EventOOMKilled
	}
	t.record(reason, "Container %s exited with code %d (%s)", t.c.Name, t.Exit.Code, t.Exit.Reason)
	if t.mustStart(cause) {
		t.LeftOver = t.LastRun && cause == ByExit
		t.scheduleStart(cause)
	}
}

// ran is how long the run that has ended lasted: by the engine's clock, but no longer
// than by ours, which nobody sets.
func (t *stepper) ran() time.Duration {
	return min(t.Exit.FinishedAt.Sub(t.Exit.StartedAt), t.now.Sub(t.BeganAt))
}

// exit describes the end of the present run.
func (t *stepper) exit(code int) Exit {
	c := *t.c
	c.StartedAt, c.ExitCode = t.StartedAt, code
	e := exitOf(&c)
	if e.FinishedAt.Before(e.StartedAt) {
		e.FinishedAt = t.now
	}
	switch t.Stopping {
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
	case t.spec.ruleApplies(t.Exit.Code):
		return true
	case cause != ByExit:
		return t.spec.RestartPolicy != Never
	}
	switch t.spec.RestartPolicy {
	case Always:
		return true
	case OnFailure:
		return t.Exit.Code != 0
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
	t.Restart, t.NotBefore = cause, t.now
	if cause != ByOperator {
		t.Backoff = t.spec.Backoff.next(t.Backoff, t.ran())
		// By the engine's clock, but not longer than by ours.
		since := max(0, min(t.now.Sub(t.Exit.FinishedAt), t.now.Sub(t.AliveAt)))
		t.NotBefore = t.now.Add(max(0, t.Backoff.Delay-since))
		if t.Backoff.Delay > 0 {
			t.record(EventBackOff, "Back-off %v restarting failed container %s", t.Backoff.Delay, t.c.Name)
		}
	}
	if t.Survived && cause == ByExit {
		t.NotBefore = later(t.NotBefore, t.now.Add(stopSettle))
	}
	if t.ShuttingDown && !t.LeftOver {
		t.NotBefore = t.now
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
