package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// bringsBack is how long an engine with a restart policy of its own is given to start a
// container after it was started itself.
const bringsBack = 10 * time.Second

// redialPause is how long an engine that did not take a connection is left in peace.
const redialPause = time.Second

// OperatorStopped says that the run has ended because somebody wanted that, and that
// the container stays stopped until somebody starts it.
func (s *State) OperatorStopped() bool {
	return s.Ending.By == EndedByOperator && s.Action.Restart == NoCause
}

// evidence is what the news of an ending is held against.
func (t *stepper) evidence() *evidence {
	alive := t.Engine.State.Alive()
	return &evidence{
		container: t.c, startedAt: t.Run.StartedAt, finishedAt: t.Run.Exit.FinishedAt, alive: alive,
		stopping: t.Action.Stopping, grace: t.Action.Grace, stopsSent: t.stopsSent(),
		openCall:    t.Action.Call == StopCall || t.Request.Error != "" || !alive,
		earlierStop: t.Action.Call == StopCall && t.Request.Sent && t.Request.Run != t.Run.ID,
		starting:    t.Action.Call == StartCall, calling: t.Action.Call != NoCall, now: t.now,
	}
}

// stopsSent is how many stops of the run have gone to the engine.
func (t *stepper) stopsSent() int {
	if t.Action.Call == StopCall && !t.Request.Sent {
		return t.Action.StopCalls - 1
	}
	return t.Action.StopCalls
}

// signalled takes in that somebody, perhaps healthd, sent a signal.
func (t *stepper) signalled(in *Input) {
	s := signal{number: in.Signal, at: in.Time, newestStart: in.NewestStart, life: in.Life}
	first := t.Ending.First
	meaning := t.Ending.signal(s, t.evidence())
	if t.Ending.MaybeEngine && !t.Ending.First.Equal(first) {
		t.beginDoubt()
	}
	switch meaning {
	case meansEarlierStop:
		t.adoptEarlierStop(in.Time)
	case meansCorrected:
		t.Action.Stopping = t.Ending.Overtaken
		t.reconsider()
	case meansOperator:
		t.awaitEnd()
		t.forgiveProbes()
		if t.Engine.State.Alive() && t.Action.Call == NoCall {
			t.Action.Stopping = NoCause // the operator was faster than our drain
		}
		t.reconsider()
	case meansNextRun:
		t.awaitEnd()
		if t.Action.Call != StartCall && t.Action.Restart != NoCause { // they have started it, and stop it
			t.endedBy(EndedByOperator)
		}
	}
}

// awaitEnd gives a run that was sent a stop signal the time to end.
func (t *stepper) awaitEnd() {
	t.Ending.ForgetAt = t.now.Add(grace(t.spec, t.c, NoCause) + 10*time.Second)
	t.Checks.InspectAt = time.Time{}
}

// adoptEarlierStop makes a stop of the run before, which has hit this one, one of this run.
func (t *stepper) adoptEarlierStop(at time.Time) {
	t.Action.Stopping, t.Action.StopCalls, t.Action.NotBefore = t.Request.Cause, 1, t.now
	t.Action.Grace = grace(t.spec, t.c, t.Request.Cause)
	t.Ending.KillDue = at.Add(t.Action.Grace - killSlack)
}

// forgiveProbes takes back what liveness and startup hold against a run that somebody
// else is ending, as in the kubelet: it no longer matters, and should the run survive, a
// verdict that came to nothing must be possible again.
func (t *stepper) forgiveProbes() {
	if !t.Engine.State.Alive() {
		return
	}
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := &t.Health.Probes[probe]
		y.Result = prober.Success
		y.OnHold = probe == Startup && t.Conditions.Started.Status && t.spec.Probes[Startup] != nil
	}
}

// died takes in the news of an end that no inspection has shown yet. What has ended
// takes no traffic, and does not survive a signal, however long a sick engine takes to
// show that. News of an earlier run may come late.
func (t *stepper) died(in *Input) {
	v := t.evidence()
	if t.EngineRestarted && !v.fromBefore(in.Life, in.NewestStart) {
		t.EngineRestarted = false // an engine that has gone could not have told it
	}
	if !in.Time.IsZero() && v.before(in.Time, t.Run.StartedAt) {
		return
	}
	t.Run.Died = t.Engine.State.Alive()
	t.Run.DiedCode, t.Ending.ForgetAt, t.Checks.InspectAt = in.ExitCode, time.Time{}, time.Time{}
}

// stopCarriedOut takes in that a stop request was carried out.
func (t *stepper) stopCarriedOut(in *Input) {
	doubted := t.Ending.MaybeEngine
	if !t.Ending.carriedOut(in.Time, in.Life, t.evidence()) {
		return
	}
	if t.Ending.MaybeEngine && !doubted {
		t.beginDoubt()
	}
	t.forgiveProbes()
	t.reconsider()
}

// forgetSignals makes a container that has outlived stop signals an ordinary one again.
// The news of its end may be lost, so the engine is asked first.
func (t *stepper) forgetSignals(in *Input) {
	if !t.Engine.State.Alive() || t.Lost || !t.Ending.Signalled() || t.Ending.ForgetAt.IsZero() || t.now.Before(t.Ending.ForgetAt) {
		return
	}
	if in.Kind != Observed {
		if !t.now.Before(t.Checks.InspectAt) {
			t.Checks.InspectAt = t.now.Add(callRetryPause)
			t.fx = append(t.fx, Effect{Kind: InspectContainer})
		}
		return
	}
	t.Ending.survived()
	if t.Action.Stopping != NoCause {
		return
	}
	if y := &t.Health.Probes[Startup]; !t.Conditions.Started.Status {
		y.Result = firstResult(t.spec.Probes[Startup], Startup)
	}
}

// beginDoubt has the engine asked, from now on, whether it takes new connections.
func (t *stepper) beginDoubt() { t.Checks.DoubtfulSince, t.Checks.DialAt = t.now, t.now }

// dial asks, while it is not clear who wanted the container stopped, whether the engine
// takes new connections. One that shuts down sends stop signals to all that it runs,
// like an operator, but first it stops listening.
func (t *stepper) dial() {
	if t.Ending.MaybeEngine && !t.Lost && !t.now.Before(t.Checks.DialAt) {
		t.Checks.DialAt = t.now.Add(redialPause)
		t.fx = append(t.fx, Effect{Kind: DialEngine})
	}
}

// engineAccepts takes in that the engine took a connection that was begun at that
// moment: it was not ending then.
func (t *stepper) engineAccepts(began time.Time) {
	t.Ending.MaybeEngine = t.Ending.MaybeEngine && t.Checks.DoubtfulSince.After(began)
}

// engineRestarted takes in that the engine was started anew. What it was about to start
// again by its own policy when it ended, it may have forgotten.
func (t *stepper) engineRestarted() {
	t.EngineRestarted = true
	if t.Engine.State == runtime.Restarting && t.Action.Restart == NoCause && t.Action.Call == NoCall &&
		t.Ending.By != EndedByOperator && !t.Ending.Signalled() {
		t.Engine.State, t.Ending.WithEngine = runtime.Exited, true
		t.endedBy(EndedByEngine)
	}
	t.Ending.engineRestarted()
	t.reconsider()
}

// endedBeforeEngine takes in that the container had ended long before its engine did.
func (t *stepper) endedBeforeEngine() {
	if t.Action.Call == NoCall {
		t.Ending.LongBefore = true
		t.reconsider()
	}
}

// end asks who ended the run, and does what follows. unwatched says that nobody watched
// it, withEngine that it was to run on, but its engine or host was started anew.
func (t *stepper) end(unwatched, withEngine bool) {
	t.Run.Exit, t.Request.Error = t.exit(t.c.ExitCode), ""
	if t.runDuration() > t.spec.Backoff.ResetAfter {
		t.Lasting.Backoff = BackoffState{} // whoever ended it
	}
	t.Ending.Unwatched, t.Ending.WithEngine = unwatched, withEngine
	t.endedBy(t.Ending.Who(t.Action.Stopping))
}

// reconsider asks again who ended a run that has ended, as there is news of it. It no
// longer matters when somebody has asked for a start since.
func (t *stepper) reconsider() {
	if t.Engine.State.Alive() || t.Ending.By == NotEnded || t.Action.Restart == ByOperator {
		return
	}
	if who := t.Ending.Who(t.Action.Stopping); who != t.Ending.By {
		t.endedBy(who)
	}
}

// endedBy does what follows from who ended the run.
func (t *stepper) endedBy(who Ender) {
	before := t.Ending.By
	t.Ending.By = who
	switch who {
	case EndedByOperator:
		t.Action.Restart, t.Action.Stopping = NoCause, NoCause
		t.Run.Exit.Reason = ReasonStoppedByOperator
		t.record(EventOperatorStopped, "Container %s was stopped by somebody else (exit code %d), stays stopped until somebody starts it", t.c.Name, t.Run.Exit.Code)
	case EndedByEngine:
		t.endedWithEngine()
	case EndedUnseen:
		t.Action.Restart = NoCause
		what := "was found stopped (exit code %d), is left alone"
		if before == EndedByEngine {
			what = "had ended long before its engine did (exit code %d), and nobody knows why: it is left alone"
		}
		t.record(EventExited, "Container %s "+what, t.c.Name, t.Run.Exit.Code)
	default:
		t.exited()
	}
}

// exited does what follows when a run has ended by itself or by healthd's stop: the
// restart policy decides.
func (t *stepper) exited() {
	cause := ByExit
	if t.Action.Stopping != NoCause {
		cause = t.Action.Stopping
	}
	t.Run.Exit = t.exit(t.Run.Exit.Code)
	reason := EventExited
	if t.c.OOMKilled {
		reason = EventOOMKilled
	}
	t.record(reason, "Container %s exited with code %d (%s)", t.c.Name, t.Run.Exit.Code, t.Run.Exit.Reason)
	if t.shouldStart(cause) {
		t.Shutdown.LeftOver = t.Shutdown.RunBegan && cause == ByExit
		t.scheduleStart(cause)
	}
}

// endedWithEngine plans the start of a container that was to run on when its engine or
// its host ended. That is no failure of its own, and grows no back-off.
func (t *stepper) endedWithEngine() {
	if t.Run.Exit.Reason == ReasonStoppedByOperator {
		t.Run.Exit.Reason = ReasonError
	}
	if t.c.AutoRemove || t.spec.RestartPolicy == Never {
		t.record(EventExited, "Container %s has ended with its engine (exit code %d), and stays stopped by its restart policy", t.c.Name, t.Run.Exit.Code)
		return
	}
	t.Action.Restart, t.Action.NotBefore = ByExit, t.now
	if t.enginePolicy() {
		t.Action.NotBefore = t.now.Add(bringsBack)
	}
	t.record(EventExited, "Container %s has ended with its engine (exit code %d), and is started again", t.c.Name, t.Run.Exit.Code)
}
