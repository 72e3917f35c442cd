package supervisor

import (
	"time"

	"healthd/prober"
)

// killSignal is SIGKILL, which engines send when the grace is over, killSlack how
// much earlier than that it may seem to come.
const (
	killSignal = 9
	killSlack  = 100 * time.Millisecond
)

// step decides: from what is known of a container and what happened to it now, it
// makes what is known afterwards and what is to be done, appended to fx. It has no
// clock, no I/O and no memory of its own. c is the container as last inspected,
// for observed and called with a container already the new one.
//

// killed takes note of a signal that somebody else sent.
func (t *stepper) killed(signal int, at time.Time) {
	if !t.c.Stops(signal) || at.Before(t.StartedAt) {
		return
	}
	next := t.Call == StartCall && at.After(t.Exit.FinishedAt) // it is for the run that our call makes
	if !next && t.ownKill(signal, at) {
		return
	}
	t.KilledAt = at
	t.KillForgotten = t.now.Add(grace(t.spec, t.c, NoCause) + 10*time.Second)
	switch {
	case next:
	case !t.Engine.Alive() && t.Restart != NoCause:
		t.stayStopped()
	case t.Engine.Alive() && t.Call == NoCall:
		t.Stopping = NoCause // the operator was faster than our drain
	}
}

// ownKill says whether a signal is of a stop call of ours, which shows as one stop
// signal and, when the grace after it is over, KILL; whatever comes beside these is
// not ours. The engine may carry a call out, and its news may come, after we gave it
// up, so only its own times count.
func (t *stepper) ownKill(signal int, at time.Time) bool {
	called := t.Call == StopCall || t.CallError != "" || !t.Engine.Alive()
	if t.Stopping == NoCause || !called {
		return false
	}
	if signal == t.c.StopSignalNumber() && t.OwnKills < t.StopCalls {
		if t.OwnKills == 0 {
			t.KillDue = at.Add(grace(t.spec, t.c, t.Stopping) - killSlack)
		}
		t.OwnKills++
		return true
	}
	return signal == killSignal && t.OwnKills > 0 && !at.Before(t.KillDue)
}

// forgetKill makes a container that outlived a stopping signal an ordinary one
// again: some programs take TERM or INT for something else.
func (t *stepper) forgetKill() {
	if !t.Engine.Alive() || t.KilledAt.IsZero() || t.now.Before(t.KillForgotten) {
		return
	}
	t.KilledAt, t.Survived = time.Time{}, true
	if t.Stopping != NoCause {
		return
	}
	for i := range t.Tallies { // a verdict that came to nothing because of the signal
		if y := &t.Tallies[i]; y.Result == prober.Failure {
			y.OnHold = false
		}
	}
}

// stopCarriedOut tells an operator's stop with a timeout so long that the signal
// was forgotten.
func (t *stepper) stopCarriedOut() {
	if !t.Engine.Alive() && t.Stopping == NoCause && t.Restart == ByExit && t.Call == NoCall {
		t.stayStopped()
	}
}

// stayStopped records the operator's wish.
func (t *stepper) stayStopped() {
	t.OperatorStopped, t.Restart, t.Stopping = true, NoCause, NoCause
	t.Exit.Reason = ReasonStoppedByOperator
	t.record(EventOperatorStopped, "Container %s was stopped by somebody else (exit code %d), stays stopped until somebody starts it", t.c.Name, t.Exit.Code)
}
