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
	if !t.c.Stops(signal) || t.before(at, t.StartedAt) {
		return
	}
	if t.oursAfterAll(signal, at) {
		return
	}
	next := t.forNext(at)
	if !next && (t.strayStop(signal, at) || t.ownKill(signal, at)) || !at.After(t.KilledLast) && !t.KilledLast.After(t.now) {
		return // not somebody's, or told again
	}
	if t.Overruled && signal == killSignal && !next {
		t.KilledLast = at // it ends the stop that somebody's newer wish for a restart has overruled
		return
	}
	t.KilledLast = at
	if t.KilledAt.IsZero() || t.KilledAt.Before(t.c.StartedAt) || next { // KILL after TERM is one wish
		t.KilledAt, t.KilledBy, t.Overtaken = at, signal, NoCause
		if t.stopsMade() > 0 {
			t.Overtaken = t.Stopping
		}
		t.doubtful()
	}
	t.KillForgotten, t.LookAt = t.now.Add(grace(t.spec, t.c, NoCause)+10*time.Second), time.Time{}
	if !next {
		t.quiet()
	}
	switch {
	case next && t.Call == StartCall:
	case !t.Engine.Alive() && t.Restart != NoCause:
		t.stayStopped()
	case t.Engine.Alive() && t.Call == NoCall:
		t.Stopping = NoCause // the operator was faster than our drain
	}
}

// before says that at was before the moment then, unless the clock was set back since.
func (t *stepper) before(at, then time.Time) bool { return at.Before(then) && !then.After(t.now) }

// forNext says that a signal was for the run after the one that has ended: our call
// makes it, or somebody has begun it and that is not seen yet.
func (t *stepper) forNext(at time.Time) bool {
	since := at.Sub(t.Exit.FinishedAt)
	return !t.Exit.FinishedAt.IsZero() && (since > KillLate || since > 0 && t.Call == StartCall)
}

// strayStop takes in that our stop of the run before, which was faster with ending by
// itself and was followed by this one, has hit this one.
func (t *stepper) strayStop(signal int, at time.Time) bool {
	if t.Call != StopCall || !t.CallMade || t.CallRun == t.Run || !t.Engine.Alive() || t.Stopping != NoCause || signal != t.c.StopSignalNumber() {
		return false
	}
	t.Stopping, t.StopCalls, t.OwnKills, t.NotBefore = t.CallCause, 1, 1, t.now
	t.Grace = grace(t.spec, t.c, t.CallCause)
	t.KillDue = at.Add(t.Grace - killSlack)
	return true
}

// ownKill says whether a signal is of a stop call of ours, which shows as one stop
// signal and, when the grace after it is over, KILL; whatever comes beside these is
// not ours. The engine may carry a call out, and its news may come, after we gave it
// up, so only its own times count.
func (t *stepper) ownKill(signal int, at time.Time) bool {
	called := t.Call == StopCall || t.CallError != "" || !t.Engine.Alive()
	made := t.stopsMade()
	if t.Stopping == NoCause || !called || made <= 0 {
		return false
	}
	if signal == t.c.StopSignalNumber() && t.OwnKills <= made {
		due := at.Add(t.Grace - killSlack)
		switch {
		case t.OwnKills > 0 && due.Equal(t.KillDue):
			return true // told again: more was remembered than noted as heard
		case t.OwnKills == made:
			return false
		case t.OwnKills == 0:
			t.KillDue = due
		}
		t.OwnKills++
		return true
	}
	return signal == killSignal && t.OwnKills > 0 && !at.Before(t.KillDue)
}

// oursAfterAll takes in the signal that our stop began with, of which nobody had heard
// when a KILL seemed to be somebody's: it came when the grace of that stop was over.
func (t *stepper) oursAfterAll(signal int, at time.Time) bool {
	if t.KilledAt.IsZero() || t.KilledBy != killSignal || t.Overtaken == NoCause || t.OwnKills > 0 ||
		signal != t.c.StopSignalNumber() || t.KilledAt.Before(at.Add(t.Grace-killSlack)) {
		return false
	}
	t.KillDue, t.OwnKills = at.Add(t.Grace-killSlack), 1
	t.KilledAt, t.Doubtful, t.Stopping = time.Time{}, false, t.Overtaken
	if t.OperatorStopped {
		t.OperatorStopped = false
		t.Exit = t.exit(t.Exit.Code)
		if t.mustStart(t.Stopping) {
			t.scheduleStart(t.Stopping)
		}
	}
	return true
}

// stopsMade is how many stops of Run have gone to the engine.
func (t *stepper) stopsMade() int {
	if t.Call == StopCall && !t.CallMade {
		return t.StopCalls - 1
	}
	return t.StopCalls
}

// died takes in the news of an end that no inspection has shown yet. What has ended
// takes no traffic, and does not survive a signal, however long a sick engine takes to
// show that. News of an earlier run may come late.
func (t *stepper) died(code int, at time.Time) {
	if !at.IsZero() && t.before(at, t.StartedAt) {
		return
	}
	t.Died = t.Engine.Alive()
	t.DiedCode, t.KillForgotten, t.LookAt = code, time.Time{}, time.Time{}
}

// forgetKill makes a container that outlived a stopping signal an ordinary one
// again: some programs take TERM or INT for something else. The news of its end may
// be lost, so the engine is asked first.
func (t *stepper) forgetKill(in *Input) {
	if !t.Engine.Alive() || t.Lost || t.KilledAt.IsZero() || t.KillForgotten.IsZero() || t.now.Before(t.KillForgotten) {
		return
	}
	if in.Kind != Observed {
		if !t.now.Before(t.LookAt) {
			t.LookAt = t.now.Add(callRetry)
			t.fx = append(t.fx, Effect{Kind: InspectContainer})
		}
		return
	}
	t.KilledAt, t.Survived = time.Time{}, true
	if t.Stopping != NoCause {
		return
	}
	if y := &t.Tallies[Startup]; !t.Started {
		y.Result = firstResult(t.spec.Probes[Startup], Startup)
	}
}

// quiet takes back what liveness and startup hold against a run that somebody else
// is ending, as in the kubelet: it no longer matters, and should the run survive, a
// verdict that came to nothing must be possible again.
func (t *stepper) quiet() {
	if !t.Engine.Alive() {
		return
	}
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := &t.Tallies[probe]
		y.Result = prober.Success
		y.OnHold = probe == Startup && t.Started && t.spec.Probes[Startup] != nil
	}
}

// stopCarriedOut tells an operator's stop with a timeout so long that the signal
// was forgotten. It may come before the end that it tells of is seen.
func (t *stepper) stopCarriedOut(in *Input) {
	switch {
	case t.Stopping != NoCause || t.before(in.Time, t.StartedAt):
	case t.Engine.Alive():
		if t.KilledAt.IsZero() {
			t.doubtful()
		}
		t.KilledAt = later(t.KilledAt, in.Time)
		t.KilledLast = t.KilledAt
		t.quiet()
	case t.Restart == ByExit && t.Call == NoCall:
		t.doubtful()
		t.stayStopped()
	}
}

// stayStopped records the operator's wish.
func (t *stepper) stayStopped() {
	t.OperatorStopped, t.Restart, t.Stopping = true, NoCause, NoCause
	t.Exit.Reason = ReasonStoppedByOperator
	t.record(EventOperatorStopped, "Container %s was stopped by somebody else (exit code %d), stays stopped until somebody starts it", t.c.Name, t.Exit.Code)
}
