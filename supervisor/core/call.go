package core

import (
	"errors"
	"fmt"
	"time"
)

// callRetry is how long a stop that failed, or whose outcome nobody knows, waits
// before it is tried again.
const callRetry = 10 * time.Second

// stop begins a stop of ours: readiness is withdrawn from now on, the call comes
// when the drain is over.
func (t *stepper) stop(cause Cause) {
	t.Stopping, t.NotBefore, t.Condemned = cause, t.now, NoCause
	t.OwnKills, t.StopCalls = 0, 0
	if t.Hooks[PreStop] == HookDone { // one that still runs serves this stop, too
		t.Hooks[PreStop] = HookIdle
	}
	t.Grace = grace(t.spec, t.c, cause)
	withdrawn := t.now
	if !t.Ready {
		withdrawn = t.ReadyCh
	}
	if end := withdrawn.Add(t.spec.Publish.Drain); end.After(t.now) {
		t.NotBefore = end
	}
}

// restartAsked begins the restart that somebody asked for. It is newer than any
// other wish, and makes a stop that is under way one with a start.
func (t *stepper) restartAsked() {
	switch {
	case t.Call == StartCall:
		return
	case t.Engine.Alive() && t.Stopping != NoCause:
		t.Overruled = t.Overruled || !t.KilledAt.IsZero()
		t.Stopping, t.KilledAt = ByOperator, time.Time{}
	case t.Engine.Alive():
		t.Overruled = t.Overruled || !t.KilledAt.IsZero()
		t.KilledAt = time.Time{}
		t.record(EventKilling, "Container %s will be restarted, as somebody asked healthd to", t.c.Name)
		t.stop(ByOperator)
	default:
		t.OperatorStopped, t.Restart, t.NotBefore = false, ByOperator, t.now
	}
}

// shutdown brings everything that waits for its start forward: who knows when
// healthd is back.
func (t *stepper) shutdown() {
	t.ShuttingDown = true
	if t.Restart != NoCause {
		t.NotBefore = t.now
	}
}

// giveUp ends a stop that cannot be made any more: the container runs, so nothing is
// left undone.
func (t *stepper) giveUp() {
	if t.Engine.Alive() && t.Stopping != NoCause && t.Call == NoCall && (t.Lost || t.frozen()) && t.ShuttingDown {
		t.Stopping = NoCause
	}
}

// act makes the call to the engine that is due, if one is. A runtime that cannot be
// heard is left alone, except that healthd does not end without having tried to
// start what it had stopped.
func (t *stepper) act() {
	if t.Call != NoCall {
		return
	}
	due := !t.now.Before(t.NotBefore)
	switch {
	case t.Engine.Alive() && t.Stopping != NoCause && !t.Lost && !t.frozen() && due:
		if t.preStop() {
			return
		}
		t.Call, t.CallMade, t.CallRun, t.CallCause = StopCall, false, t.Run, t.Stopping
		t.StopCalls++
		t.fx = append(t.fx, Effect{Kind: StopContainer, Grace: t.Grace})
	case !t.Engine.Alive() && t.Restart != NoCause && !t.LeftOver && !t.heldBack() && (!t.Lost || t.ShuttingDown) && due:
		t.Call, t.CallRun = StartCall, t.Run
		t.fx = append(t.fx, Effect{Kind: StartContainer})
	}
}

// called takes in how our call ended.
func (t *stepper) called(in *Input) {
	if in.Container != nil {
		t.observed(in)
	}
	t.Call = NoCall
	switch {
	case in.Call == StopCall && t.Stopping != NoCause && t.Engine.Alive():
		t.stopFailed(in.Err)
	case in.Call == StartCall && t.Restart != NoCause && t.Run == t.CallRun:
		t.startFailed(in.Err)
	default:
		t.CallError = ""
	}
}

func (t *stepper) stopFailed(err error) {
	if errors.Is(err, ErrNotSent) && !t.ShuttingDown {
		t.StopCalls--
		t.NotBefore = t.now.Add(callRetry)
		return
	}
	t.CallError = callError("stop", t.c.Name, err)
	t.NotBefore = t.now.Add(callRetry)
	if t.ShuttingDown {
		t.Stopping = NoCause
		t.record(EventKilling, "%s; healthd ends without another try", t.CallError)
		return
	}
	t.record(EventKilling, "%s; trying again in %v", t.CallError, callRetry)
}

// startFailed backs off as after a run that ended at once.
func (t *stepper) startFailed(err error) {
	t.CallError = callError("start", t.c.Name, err)
	if _, ok := errors.AsType[OutcomeUnknown](err); ok { // nothing has failed that is known
		t.NotBefore = t.now.Add(callRetry)
		if t.ShuttingDown {
			t.LeftOver = true
		}
		return
	}
	t.Backoff = t.spec.Backoff.next(t.Backoff, 0)
	if t.Backoff.Delay == 0 {
		t.Backoff = t.spec.Backoff.next(t.Backoff, 0)
	}
	t.NotBefore = t.now.Add(t.Backoff.Delay)
	if t.ShuttingDown {
		t.LeftOver = true
		t.record(EventBackOff, "%s; healthd ends without another try", t.CallError)
		return
	}
	t.record(EventBackOff, "%s; trying again in %v", t.CallError, t.Backoff.Delay)
}

func callError(what, name string, err error) string {
	if err == nil {
		return fmt.Sprintf("cannot %s container %s: the engine says that it did, but it did not", what, name)
	}
	return err.Error()
}

// drained ends the drain of a stop that is under way.
func (t *stepper) drained() {
	if t.AwaitsDrain() && t.now.Before(t.NotBefore) {
		t.NotBefore = t.now
	}
}

// AwaitsDrain says that the container is to be stopped by healthd when its drain is
// over, or Drained says so.
func (s *State) AwaitsDrain() bool {
	return s.Engine.Alive() && s.Stopping != NoCause && s.StopCalls == 0 && s.Call == NoCall && s.Hooks[PreStop] == HookIdle
}

// errNotStopped is why a stop was not made: the container had ended already, of which
// its watcher tells who or what has done that; or somebody has paused it.
var ErrNotSent = errors.New("the container has ended, or is paused")

// OutcomeUnknown says that a call was made and that the engine could not be asked
// afterwards what came of it.
type OutcomeUnknown struct{ Err error }

func (u OutcomeUnknown) Error() string { return "cannot see what became of it: " + u.Err.Error() }

// Unwrap returns why the engine could not be asked.
func (u OutcomeUnknown) Unwrap() error { return u.Err }
