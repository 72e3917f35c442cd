package core

import (
	"time"

	"healthd/prober"
)

// killSignal is SIGKILL, which engines send when the grace is over, killSlack how
// much earlier than that it may seem to come.
const (
	killSignal = 9
	killSlack  = 100 * time.Millisecond
	KillLate   = 2 * time.Second // after the end that it caused a signal may seem to come
)

// killed takes note of a signal that somebody else sent.
func (t *stepper) killed(signal int, at time.Time) {
	if !t.c.Stops(signal) || t.before(at, t.Run.StartedAt) {
		return
	}
	if t.oursAfterAll(signal, at) {
		return
	}
	next := t.forNext(at)
	if !next && (t.strayStop(signal, at) || t.ownKill(signal, at)) || !at.After(t.Ending.Last) && !t.Ending.Last.After(t.now) {
		return // not somebody's, or told again
	}
	if t.Ending.Overruled && signal == killSignal && !next {
		t.Ending.Last = at // it ends the stop that somebody's newer wish for a restart has overruled
		return
	}
	t.Ending.Last = at
	if t.Ending.First.IsZero() || t.Ending.First.Before(t.c.StartedAt) || next { // KILL after TERM is one wish
		t.Ending.First, t.Ending.FirstSignal, t.Ending.Overtaken = at, signal, NoCause
		if t.stopsMade() > 0 {
			t.Ending.Overtaken = t.Action.Stopping
		}
		t.doubtful()
	}
	t.Ending.ForgetAt, t.Checks.InspectAt = t.now.Add(grace(t.spec, t.c, NoCause)+10*time.Second), time.Time{}
	if !next {
		t.quiet()
	}
	switch {
	case next && t.Action.Call == StartCall:
	case !t.Engine.State.Alive() && t.Action.Restart != NoCause:
		t.stayStopped()
	case t.Engine.State.Alive() && t.Action.Call == NoCall:
		t.Action.Stopping = NoCause // the operator was faster than our drain
	}
}

// before says that at was before the moment then, unless the clock was set back since.
func (t *stepper) before(at, then time.Time) bool { return at.Before(then) && !then.After(t.now) }

// forNext says that a signal was for the run after the one that has ended: our call
// makes it, or somebody has begun it and that is not seen yet.
func (t *stepper) forNext(at time.Time) bool {
	since := at.Sub(t.Run.Exit.FinishedAt)
	return !t.Run.Exit.FinishedAt.IsZero() && (since > KillLate || since > 0 && t.Action.Call == StartCall)
}

// strayStop takes in that our stop of the run before, which was faster with ending by
// itself and was followed by this one, has hit this one.
func (t *stepper) strayStop(signal int, at time.Time) bool {
	if t.Action.Call != StopCall || !t.Request.Sent || t.Request.Run == t.Run.ID || !t.Engine.State.Alive() || t.Action.Stopping != NoCause || signal != t.c.StopSignalNumber() {
		return false
	}
	t.Action.Stopping, t.Action.StopCalls, t.Ending.OwnSignals, t.Action.NotBefore = t.Request.Cause, 1, 1, t.now
	t.Action.Grace = grace(t.spec, t.c, t.Request.Cause)
	t.Ending.KillDue = at.Add(t.Action.Grace - killSlack)
	return true
}

// ownKill says whether a signal is of a stop call of ours, which shows as one stop
// signal and, when the grace after it is over, KILL; whatever comes beside these is
// not ours. The engine may carry a call out, and its news may come, after we gave it
// up, so only its own times count.
func (t *stepper) ownKill(signal int, at time.Time) bool {
	called := t.Action.Call == StopCall || t.Request.Error != "" || !t.Engine.State.Alive()
	made := t.stopsMade()
	if t.Action.Stopping == NoCause || !called || made <= 0 {
		return false
	}
	if signal == t.c.StopSignalNumber() && t.Ending.OwnSignals <= made {
		due := at.Add(t.Action.Grace - killSlack)
		switch {
		case t.Ending.OwnSignals > 0 && due.Equal(t.Ending.KillDue):
			return true // told again: more was remembered than noted as heard
		case t.Ending.OwnSignals == made:
			return false
		case t.Ending.OwnSignals == 0:
			t.Ending.KillDue = due
		}
		t.Ending.OwnSignals++
		return true
	}
	return signal == killSignal && t.Ending.OwnSignals > 0 && !at.Before(t.Ending.KillDue)
}

// oursAfterAll takes in the signal that our stop began with, of which nobody had heard
// when a KILL seemed to be somebody's: it came when the grace of that stop was over.
func (t *stepper) oursAfterAll(signal int, at time.Time) bool {
	if t.Ending.First.IsZero() || t.Ending.FirstSignal != killSignal || t.Ending.Overtaken == NoCause || t.Ending.OwnSignals > 0 ||
		signal != t.c.StopSignalNumber() || t.Ending.First.Before(at.Add(t.Action.Grace-killSlack)) {
		return false
	}
	t.Ending.KillDue, t.Ending.OwnSignals = at.Add(t.Action.Grace-killSlack), 1
	t.Ending.First, t.Ending.MaybeEngine, t.Action.Stopping = time.Time{}, false, t.Ending.Overtaken
	if t.Ending.OperatorStopped {
		t.Ending.OperatorStopped = false
		t.Run.Exit = t.exit(t.Run.Exit.Code)
		if t.mustStart(t.Action.Stopping) {
			t.scheduleStart(t.Action.Stopping)
		}
	}
	return true
}

// stopsMade is how many stops of Run have gone to the engine.
func (t *stepper) stopsMade() int {
	if t.Action.Call == StopCall && !t.Request.Sent {
		return t.Action.StopCalls - 1
	}
	return t.Action.StopCalls
}

// died takes in the news of an end that no inspection has shown yet. What has ended
// takes no traffic, and does not survive a signal, however long a sick engine takes to
// show that. News of an earlier run may come late.
func (t *stepper) died(code int, at time.Time) {
	if !at.IsZero() && t.before(at, t.Run.StartedAt) {
		return
	}
	t.Run.Died = t.Engine.State.Alive()
	t.Run.DiedCode, t.Ending.ForgetAt, t.Checks.InspectAt = code, time.Time{}, time.Time{}
}

// forgetKill makes a container that outlived a stopping signal an ordinary one
// again: some programs take TERM or INT for something else. The news of its end may
// be lost, so the engine is asked first.
func (t *stepper) forgetKill(in *Input) {
	if !t.Engine.State.Alive() || t.Lost || t.Ending.First.IsZero() || t.Ending.ForgetAt.IsZero() || t.now.Before(t.Ending.ForgetAt) {
		return
	}
	if in.Kind != Observed {
		if !t.now.Before(t.Checks.InspectAt) {
			t.Checks.InspectAt = t.now.Add(callRetry)
			t.fx = append(t.fx, Effect{Kind: InspectContainer})
		}
		return
	}
	t.Ending.First, t.Ending.Survived = time.Time{}, true
	if t.Action.Stopping != NoCause {
		return
	}
	if y := &t.Health.Probes[Startup]; !t.Conditions.Started.Status {
		y.Result = firstResult(t.spec.Probes[Startup], Startup)
	}
}

// quiet takes back what liveness and startup hold against a run that somebody else
// is ending, as in the kubelet: it no longer matters, and should the run survive, a
// verdict that came to nothing must be possible again.
func (t *stepper) quiet() {
	if !t.Engine.State.Alive() {
		return
	}
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := &t.Health.Probes[probe]
		y.Result = prober.Success
		y.OnHold = probe == Startup && t.Conditions.Started.Status && t.spec.Probes[Startup] != nil
	}
}

// stopCarriedOut tells an operator's stop with a timeout so long that the signal
// was forgotten. It may come before the end that it tells of is seen.
func (t *stepper) stopCarriedOut(in *Input) {
	switch {
	case t.Action.Stopping != NoCause || t.before(in.Time, t.Run.StartedAt):
	case t.Engine.State.Alive():
		if t.Ending.First.IsZero() {
			t.doubtful()
		}
		t.Ending.First = later(t.Ending.First, in.Time)
		t.Ending.Last = t.Ending.First
		t.quiet()
	case t.Action.Restart == ByExit && t.Action.Call == NoCall:
		t.doubtful()
		t.stayStopped()
	}
}

// stayStopped records the operator's wish.
func (t *stepper) stayStopped() {
	t.Ending.OperatorStopped, t.Action.Restart, t.Action.Stopping = true, NoCause, NoCause
	t.Run.Exit.Reason = ReasonStoppedByOperator
	t.record(EventOperatorStopped, "Container %s was stopped by somebody else (exit code %d), stays stopped until somebody starts it", t.c.Name, t.Run.Exit.Code)
}
