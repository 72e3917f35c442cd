package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// stop begins a stop: healthd withdraws readiness now and calls the engine after the drain.
func (t *stepper) stop(cause Cause) {
	t.Action.Stopping, t.Action.NotBefore, t.Health.Failed = cause, t.now, NoCause
	t.Request.Begun = t.now
	t.Ending.GivenUp += t.Action.StopCalls
	t.Ending.OwnSignals, t.Action.StopCalls, t.Action.Refused, t.Request.SentAt = 0, 0, 0, time.Time{}
	if t.Run.Hooks[PreStop] == HookDone { // a hook that still runs counts for this stop
		t.Run.Hooks[PreStop] = HookIdle
	}
	t.Action.Grace, t.Action.GaveUp = grace(t.spec, t.c, cause), false
	withdrawn := t.now
	if !t.Conditions.Ready.Status {
		withdrawn = t.Conditions.Ready.Since
	}
	publish := &t.spec.Publish
	known := withdrawn.Add(publish.WithdrawWithin)
	t.Action.Withdrawn = time.Time{}
	if !known.After(t.now) {
		t.Action.Withdrawn = known
	}
	t.Action.NotBefore = later(t.now, known.Add(publish.Drain))
}

// withdrawn begins the drain: all load balancers know that the run takes no new requests.
func (t *stepper) withdrawn() {
	if t.AwaitsWithdrawal() && !t.StopLeft() {
		t.Action.Withdrawn = t.now
		t.Action.NotBefore = earlier(t.Action.NotBefore, t.now.Add(t.spec.Publish.Drain))
	}
}

// endDrain ends the drain early: no request is under way from HAProxy. The others know of the withdrawal, and have had
// their time.
func (t *stepper) endDrain() {
	if t.AwaitsDrain() && !t.StopLeft() && !t.AwaitsWithdrawal() {
		end := later(t.now, t.Action.Withdrawn.Add(t.spec.Publish.LeastDrain))
		t.Action.NotBefore = earlier(t.Action.NotBefore, end)
	}
}

// callEngine makes the stop or start call that is due. While healthd cannot reach the
// engine it makes none, with one exception: before healthd shuts down it tries to start
// what it has stopped.
func (t *stepper) callEngine() {
	t.Request.Queued = false
	if t.Action.Call != NoCall || t.now.Before(t.Action.NotBefore) {
		return
	}
	switch {
	case t.stopPending():
		if t.runPreStop() {
			return
		}
		t.Action.Call, t.Request.Sent, t.Request.Run = StopCall, false, t.Run.ID
		t.Request.Cause, t.Request.Grace, t.Request.Told = t.Action.Stopping, t.Action.Grace, false
		t.Action.StopCalls++
		t.fx = append(t.fx, Effect{Kind: StopContainer, Grace: t.Action.Grace})
	case t.startPending() && t.startsFull && t.Action.Restart == ByExit:
		t.Request.Queued = true
	case t.startPending():
		t.Action.Call, t.Request.Run = StartCall, t.Run.ID
		t.fx = append(t.fx, Effect{Kind: StartContainer})
	}
}

// stopSent notes that a stop call leaves for the engine.
func (t *stepper) stopSent() {
	t.Request.Sent = true
	if t.Action.StopCalls == 1 {
		t.Request.SentAt = t.now
	}
}

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
	if errors.Is(err, runtime.ErrRefused) { // or the look before it
		t.Request.Error = byName(t.c, err.Error())
		t.stopRefused()
		return
	}
	if errors.Is(err, ErrNotSent) && !t.Shutdown.Begun {
		t.Action.StopCalls--
		t.Action.NotBefore = t.now.Add(callRetryPause)
		if err != ErrNotSent {
			t.Request.Error = byName(t.c, fmt.Sprintf("cannot stop container %s: %v", t.c.Name, err))
			t.record(EventKilling, "%s; healthd tries again in %v", t.Request.Error, callRetryPause)
		}
		return
	}
	t.Request.Error = callError("stop", t.c, err)
	t.Action.NotBefore, t.Action.Refused = t.now.Add(callRetryPause), 0
	if _, ok := errors.AsType[OutcomeUnknown](err); ok && t.Shutdown.Begun { // the stop may have succeeded
		t.Shutdown.LeftOver = true
		t.record(EventKilling, "%s; healthd shuts down and leaves the stop to the next daemon", t.Request.Error)
		return
	}
	if t.Shutdown.Begun {
		t.Action.Stopping = NoCause
		t.record(EventKilling, "%s; healthd shuts down and does not try again", t.Request.Error)
		return
	}
	if t.Ending.Signalled() {
		t.record(EventKilling, "%s; healthd tries again if it survives the stop signal of others", t.Request.Error)
		return
	}
	t.record(EventKilling, "%s; healthd tries again in %v", t.Request.Error, callRetryPause)
}

// stopRefused goes on after a stop call that the engine did not allow: healthd tries again after the back-off. Until
// then the run may recover, and what people ask for is not tried again: they see at once that it cannot be done.
func (t *stepper) stopRefused() {
	t.Action.StopCalls--
	t.Action.Refused++
	backoff := BackoffState{Active: true}
	for range min(t.Action.Refused, 64) { // it has reached its maximum by then
		backoff = t.spec.Backoff.next(backoff, 0)
	}
	t.Action.NotBefore = t.now.Add(max(backoff.Delay, callRetryPause))
	switch {
	case t.Action.StopCalls == 0 && t.Action.Stopping == ByOperator:
		t.record(EventEngineRefused, "%s; healthd gives up the restart that an operator asked for", t.Request.Error)
		t.giveUpStop()
		return
	case t.Shutdown.Begun: // abandonStop ends it, unless an earlier call may have been carried out
		t.Shutdown.LeftOver = t.Action.StopCalls > 0
		t.record(EventEngineRefused, "%s; healthd shuts down and does not try again", t.Request.Error)
		return
	}
	t.record(EventEngineRefused, "%s; healthd tries again after a back-off", t.Request.Error)
	t.probeAgain()
}

// giveUpStop ends a stop that has not begun: the container goes on.
func (t *stepper) giveUpStop() {
	t.Action.Stopping, t.Action.Refused, t.Request.Error = NoCause, 0, ""
	t.probeAgain()
}

// probeAgain has the probes go on that failed: the run may recover.
func (t *stepper) probeAgain() {
	for i := range t.Health.Probes {
		if y := &t.Health.Probes[i]; y.Result == prober.Failure {
			y.OnHold = false
		}
	}
}

// startCallFailed counts a failed start for the back-off like a run that ended at once. Of a container that is gone it
// is no failure: the news of its removal tells the rest.
func (t *stepper) startCallFailed(err error) {
	t.Request.Error = callError("start", t.c, err)
	if errors.Is(err, runtime.ErrNotFound) {
		t.Action.NotBefore = t.now.Add(callRetryPause)
		t.Shutdown.LeftOver = t.Shutdown.LeftOver || t.Shutdown.Begun
		return
	}
	if _, ok := errors.AsType[OutcomeUnknown](err); ok { // the start may have succeeded: no back-off
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
	reason := EventBackOff
	if errors.Is(err, runtime.ErrRefused) {
		reason = EventEngineRefused
	}
	if t.Shutdown.Begun {
		t.Shutdown.LeftOver = true
		t.record(reason, "%s; healthd shuts down and does not try again", t.Request.Error)
		return
	}
	t.record(reason, "%s; healthd tries again in %v (%s)", t.Request.Error, t.Lasting.Backoff.Delay, toKeepDown(t.c.Name))
}

func callError(what string, c *runtime.Container, err error) string {
	if err == nil {
		return fmt.Sprintf("cannot %s container %s: the engine reported success, but nothing changed", what, c.Name)
	}
	return byName(c, err.Error())
}

// byName has what an engine says of a container call it by its name.
func byName(c *runtime.Container, text string) string {
	id := c.EngineID()
	if !runtime.IsFullID(id) {
		return text
	}
	return strings.NewReplacer("container "+id, "container "+c.Name, "container "+short(id), "container "+c.Name).Replace(text)
}
