package core

import (
	"slices"
	"time"

	"healthd/runtime"
)

// shouldStart is the restart decision. (kubelet ShouldContainerBeRestarted) Under
// OnFailure healthd also starts a container that exited with 0 after healthd stopped it
// for a failed probe: the probe's failure counts.
func (t *stepper) shouldStart(cause Cause) bool {
	return t.wouldStart(cause) && !t.onlyObserved(cause)
}

// wouldStart is shouldStart for a container that healthd does not only observe.
func (t *stepper) wouldStart(cause Cause) bool {
	switch {
	case t.c.AutoRemove, t.spec.ManagedElsewhere != "", t.quarantines(cause):
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

// quarantines says that healthd stops a run for that cause, and leaves the container stopped.
func (t *stepper) quarantines(cause Cause) bool {
	return t.spec.OnFailure == StopFailed && (cause == ByLiveness || cause == ByStartup)
}

// onlyObserved says that healthd tells of a start for that cause instead of making it. What healthd itself
// has stopped, it starts again.
func (t *stepper) onlyObserved(cause Cause) bool { return t.spec.Observe && cause == ByExit }

// startsAfterEngine says whether a container is started that has ended with its engine or host. That
// is no exit of its own, so that neither its exit code nor the engine's restart policy matters.
func (t *stepper) startsAfterEngine() bool {
	return !t.c.AutoRemove && t.spec.RestartPolicy != Never
}

// ruleApplies says whether a restart rule matches the exit code.
func (spec *Spec) ruleApplies(code int) bool {
	return slices.ContainsFunc(spec.RestartRules, func(r RestartRule) bool {
		return slices.Contains(r.ExitCodes, code) == (r.Operator == In)
	})
}

// enginePolicy says that the container has a restart policy of the engine's own, so the engine restarts it after an
// exit, and has not given up.
func (t *stepper) enginePolicy() bool { return t.c.HasRestartPolicy() && !t.Run.EngineGaveUp }

// lookWhetherLeftDown notes whether the engine leaves the container down that its own restart policy has it start. An
// engine that was about to start it, and is no more, without an error, obeys an operator, or got any signal for it: of
// a kill between two runs no event tells.
func (t *stepper) lookWhetherLeftDown() {
	told := t.Engine.GivesUp
	t.Run.EngineTries = t.Run.EngineTries || t.c.State == runtime.Restarting
	t.Engine.GivesUp = t.c.LeftDown() && t.c.Error == "" && t.Run.EngineTries
	t.Engine.LeftDown = t.c.LeftDown() && !t.Engine.GivesUp
	if t.Engine.GivesUp && !told && t.Ending.By == EndedByItself && t.Action.Restart == NoCause {
		t.record(EventEngineGaveUp, "The engine does not start container %s any more, although its own restart policy is %s: "+
			"an operator stopped it between two runs, or sent it a signal. It stays stopped until it is started",
			t.c.Name, t.c.RestartPolicy)
	}
}

// engineGivesUp has healthd's restart policy decide when the engine's own has had its time.
func (t *stepper) engineGivesUp() {
	at := t.State.EngineGivesUpAt()
	if at.IsZero() || t.now.Before(at) {
		return
	}
	t.Run.EngineGaveUp = true
	why := "a signal or a stop, even one that failed, switches it off"
	if t.c.Error != "" {
		why = t.c.Error
	}
	t.record(EventEngineGaveUp, "The engine leaves container %s down, although its own restart policy is %s: %s",
		t.c.Name, t.c.RestartPolicy, why)
	t.startAfter(ByExit)
}

// EngineGivesUpAt returns when the time is over that healthd gives the engine to start the container by the engine's
// own restart policy; zero: healthd does not wait for that.
func (s *State) EngineGivesUpAt() time.Time {
	if busy := s.Action.Restart != NoCause || s.Action.Call != NoCall; busy || s.Lost || s.Ending.By != EndedByItself {
		return time.Time{}
	}
	if !s.Engine.LeftDown || s.Run.EngineGaveUp {
		return time.Time{}
	}
	return s.Run.EndedAt.Add(engineStartWait)
}

// lateNewsPause is how long a start waits for news of an operator's stop, when the run had
// survived a stop signal: an operator's stop with a long timeout looks like that, too.
const lateNewsPause = 2 * time.Second

// scheduleStart schedules the start after a run. The back-off counts from the end of the
// run, not from its news.
func (t *stepper) scheduleStart(cause Cause) {
	t.Action.Restart, t.Action.NotBefore = cause, t.now
	t.countForGiveUp(cause)
	if cause != ByOperator {
		again := t.Lasting.Backoff.Active || t.Lasting.Backoff.Soon
		t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, t.runDuration())
		t.Lasting.Backoff.Soon = t.CrashedSoon()
		delay := t.Lasting.Backoff.Delay
		if t.crowded && again && t.CrashedSoon() {
			delay = max(delay, DefaultBackoffInitial)
		}
		t.Action.NotBefore = later(t.now, t.Run.EndedAt.Add(delay))
		if delay > 0 {
			how := "failed"
			if cause == ByExit && t.Run.Exit.Code == 0 { // a job, perhaps
				how = "finished"
			}
			t.record(EventBackOff, "Back-off %v restarting %s container %s (%s)", delay, how, t.c.Name, toKeepDown(t.c.Name))
		}
	}
	if t.Shutdown.Begun && !t.Shutdown.LeftOver {
		t.Action.NotBefore = t.now
	}
	if t.Ending.Survived && cause != ByOperator {
		t.Action.NotBefore = later(t.Action.NotBefore, t.now.Add(lateNewsPause))
	}
}

// toKeepDown says what keeps a container down that waits for its start: of a stop of what does not run no engine tells.
func toKeepDown(name string) string { return "to keep it down: healthd hold " + name }

// CrashedSoon says that the container ended by itself within DefaultBackoffInitial after its start, and is
// to be started again.
func (s *State) CrashedSoon() bool {
	return s.Action.Restart == ByExit && s.Run.Exit.FinishedAt.Sub(s.Run.Exit.StartedAt) < DefaultBackoffInitial
}

// RestartsAfter says whether healthd starts the container again if it ends by itself with
// that exit code. The view must be valid.
func (v *View) RestartsAfter(code int) bool {
	t := stepper{State: v.State.Copy(), spec: v.Spec, c: v.Container}
	t.Run.Exit.Code = code
	return t.shouldStart(ByExit)
}
