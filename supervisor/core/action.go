package core

import (
	"errors"
	"fmt"
	"time"

	"healthd/runtime"
)

// Action is the stop or start under way. All but Call ends with the run.
type Action struct {
	Stopping  Cause         `json:"stopping,omitempty"`  // why we are stopping, or have stopped, the run
	StopCalls int           `json:"stopCalls,omitempty"` // made for the run by the present stop
	Grace     time.Duration `json:"grace,omitempty"`     // left for the stop signal of the present stop
	Restart   Cause         `json:"restart,omitempty"`   // the run has ended, and a start is due at NotBefore
	NotBefore time.Time     `json:"notBefore,omitzero"`  // earliest next call: the drain or the back-off is over
	Call      Call          `json:"call,omitempty"`      // under way
}

// Request is what this daemon knows of its newest call to the engine. News of the
// next run may come before the call returns, so it outlives the run.
type Request struct {
	Sent  bool        // a stop: it is on its way, so news of its signal may come
	Cause Cause       // of a stop
	Run   runtime.Run // the newest one when the call was made
	Error string      // why the call failed; empty after a good one
}

// Call is a request to the engine that is under way for a container. There is at
// most one.
type Call uint8

// The calls.
const (
	NoCall Call = iota
	StopCall
	StartCall
)

// callRetryPause is how long a stop that failed, or whose outcome nobody knows, waits
// before it is tried again.
const callRetryPause = 10 * time.Second

// stop begins a stop of ours: readiness is withdrawn from now on, the call comes
// when the drain is over.
func (t *stepper) stop(cause Cause) {
	t.Action.Stopping, t.Action.NotBefore, t.Health.Failed = cause, t.now, NoCause
	t.Ending.OwnSignals, t.Action.StopCalls = 0, 0
	if t.Run.Hooks[PreStop] == HookDone { // one that still runs serves this stop, too
		t.Run.Hooks[PreStop] = HookIdle
	}
	t.Action.Grace = grace(t.spec, t.c, cause)
	withdrawn := t.now
	if !t.Conditions.Ready.Status {
		withdrawn = t.Conditions.Ready.Since
	}
	if end := withdrawn.Add(t.spec.Publish.Drain); end.After(t.now) {
		t.Action.NotBefore = end
	}
}

// requestRestart begins the restart that somebody asked for. It is newer than any
// other wish, and makes a stop that is under way one with a start.
func (t *stepper) requestRestart() {
	switch {
	case t.Action.Call == StartCall:
		return
	case t.Engine.State.Alive() && t.Action.Stopping != NoCause:
		t.Ending.Overruled = t.Ending.Overruled || !t.Ending.First.IsZero()
		t.Action.Stopping, t.Ending.First = ByOperator, time.Time{}
	case t.Engine.State.Alive():
		t.Ending.Overruled = t.Ending.Overruled || !t.Ending.First.IsZero()
		t.Ending.First = time.Time{}
		t.record(EventKilling, "Container %s will be restarted, as somebody asked healthd to", t.c.Name)
		t.stop(ByOperator)
	default:
		t.Action.Restart, t.Action.NotBefore = ByOperator, t.now
	}
}

// callEngine makes the call to the engine that is due, if one is. A runtime that cannot be
// heard is left alone, except that healthd does not end without having tried to
// start what it had stopped.
func (t *stepper) callEngine() {
	if t.Action.Call != NoCall {
		return
	}
	due := !t.now.Before(t.Action.NotBefore)
	switch {
	case t.Engine.State.Alive() && t.Action.Stopping != NoCause && !t.Lost && !t.pausedBeforeStop() && due:
		if t.runPreStop() {
			return
		}
		t.Action.Call, t.Request.Sent, t.Request.Run, t.Request.Cause = StopCall, false, t.Run.ID, t.Action.Stopping
		t.Action.StopCalls++
		t.fx = append(t.fx, Effect{Kind: StopContainer, Grace: t.Action.Grace})
	case !t.Engine.State.Alive() && t.Action.Restart != NoCause && !t.Shutdown.LeftOver && !t.startBlocked() && (!t.Lost || t.Shutdown.Begun) && due:
		t.Action.Call, t.Request.Run = StartCall, t.Run.ID
		t.fx = append(t.fx, Effect{Kind: StartContainer})
	}
}

// callReturned takes in how our call ended.
func (t *stepper) callReturned(in *Input) {
	if in.Container != nil {
		t.observed(in)
	}
	t.Action.Call = NoCall
	switch {
	case in.Call == StopCall && t.Action.Stopping != NoCause && t.Engine.State.Alive():
		t.stopCallFailed(in.Err)
	case in.Call == StartCall && t.Action.Restart != NoCause && t.Run.ID == t.Request.Run:
		t.startCallFailed(in.Err)
	default:
		t.Request.Error = ""
	}
}

func (t *stepper) stopCallFailed(err error) {
	if errors.Is(err, ErrNotSent) && !t.Shutdown.Begun {
		t.Action.StopCalls--
		t.Action.NotBefore = t.now.Add(callRetryPause)
		return
	}
	t.Request.Error = callError("stop", t.c.Name, err)
	t.Action.NotBefore = t.now.Add(callRetryPause)
	if t.Shutdown.Begun {
		t.Action.Stopping = NoCause
		t.record(EventKilling, "%s; healthd ends without another try", t.Request.Error)
		return
	}
	t.record(EventKilling, "%s; trying again in %v", t.Request.Error, callRetryPause)
}

// startFailed backs off as after a run that ended at once.
func (t *stepper) startCallFailed(err error) {
	t.Request.Error = callError("start", t.c.Name, err)
	if _, ok := errors.AsType[OutcomeUnknown](err); ok { // nothing has failed that is known
		t.Action.NotBefore = t.now.Add(callRetryPause)
		if t.Shutdown.Begun {
			t.Shutdown.LeftOver = true
		}
		return
	}
	t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, 0)
	if t.Lasting.Backoff.Delay == 0 {
		t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, 0)
	}
	t.Action.NotBefore = t.now.Add(t.Lasting.Backoff.Delay)
	if t.Shutdown.Begun {
		t.Shutdown.LeftOver = true
		t.record(EventBackOff, "%s; healthd ends without another try", t.Request.Error)
		return
	}
	t.record(EventBackOff, "%s; trying again in %v", t.Request.Error, t.Lasting.Backoff.Delay)
}

func callError(what, name string, err error) string {
	if err == nil {
		return fmt.Sprintf("cannot %s container %s: the engine says that it did, but it did not", what, name)
	}
	return err.Error()
}

// endDrain ends the drain of a stop that is under way.
func (t *stepper) endDrain() {
	if t.AwaitsDrain() && t.now.Before(t.Action.NotBefore) {
		t.Action.NotBefore = t.now
	}
}

// AwaitsDrain says that the container is to be stopped by healthd when its drain is
// over, or Drained says so.
func (s *State) AwaitsDrain() bool {
	return s.Engine.State.Alive() && s.Action.Stopping != NoCause && s.Action.StopCalls == 0 && s.Action.Call == NoCall && s.Run.Hooks[PreStop] == HookIdle
}

// ErrNotSent is why a stop was not made: the container had ended already, of which
// its watcher tells who or what has done that; or somebody has paused it.
var ErrNotSent = errors.New("the container has ended, or is paused")

// OutcomeUnknown says that a call was made and that the engine could not be asked
// afterwards what came of it.
type OutcomeUnknown struct{ Err error }

func (u OutcomeUnknown) Error() string { return "cannot see what became of it: " + u.Err.Error() }

// Unwrap returns why the engine could not be asked.
func (u OutcomeUnknown) Unwrap() error { return u.Err }
