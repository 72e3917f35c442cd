package supervisor

import (
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// inputKind says what happened to a container.
type inputKind uint8

const (
	observed       inputKind = iota + 1 // the engine was asked: container
	killed                              // somebody, perhaps we, sent signal at the engine's time
	died                                // the engine says that it ended with code
	stopCarriedOut                      // a request to stop or restart it, perhaps ours, was carried out
	answered                            // a probe came back: probe, result
	called                              // our call to the engine returned: call, err, container unless unknown
	restartAsked                        // somebody asked healthd for a restart
	runtimeLost
	runtimeBack
	shutdown // healthd is to end
	tick     // time went by
)

// input is one thing that happened to a container. Which fields are set follows
// from the kind.
type input struct {
	kind      inputKind
	container *runtime.Container
	found     bool // observed: first seen, and nobody watched before
	signal    int
	time      time.Time
	code      int
	probe     ProbeType
	result    prober.Result
	call      Call
	err       error
}

// effectKind says what the loop has to do.
type effectKind uint8

const (
	doAsk effectKind = iota + 1
	doStop
	doStart
	doRecord
)

// effect is one thing for the loop to do. Which fields are set follows from what
// it does.
type effect struct {
	do      effectKind
	probe   ProbeType
	late    time.Duration // doAsk: since the probe was due
	grace   time.Duration // doStop
	reason  string        // doRecord
	message string
}

// callRetry is how long a stop that failed, or whose outcome nobody knows, waits
// before it is tried again.
const callRetry = 10 * time.Second

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
// Effects are in the order in which they must be carried out, and only after the
// new state has been published: readiness is withdrawn before a stop.
func step(spec *Spec, c *runtime.Container, s State, in *input, now time.Time, fx []effect) (State, []effect) {
	t := stepper{State: s, spec: spec, c: c, now: now, fx: fx}
	switch in.kind {
	case observed:
		t.observed(in.found)
	case killed:
		t.killed(in.signal, in.time)
	case died:
		t.DiedCode = in.code
	case stopCarriedOut:
		t.stopCarriedOut()
	case answered:
		t.answered(in.probe, in.result)
	case called:
		t.called(in)
	case restartAsked:
		t.restartAsked()
	case runtimeLost:
		t.Lost = true
	case runtimeBack:
		t.Lost = false
	case shutdown:
		t.shutdown()
	}
	t.forgetKill()
	t.publish()
	t.act()
	t.plan(in)
	t.ask()
	if t.Engine.Alive() {
		t.AliveAt = now
	}
	return t.State, t.fx
}

// stepper is one step under way.
type stepper struct {
	State
	spec *Spec
	c    *runtime.Container
	now  time.Time
	fx   []effect
}

func (t *stepper) record(reason, format string, args ...any) {
	t.fx = append(t.fx, effect{do: doRecord, reason: reason, message: fmt.Sprintf(format, args...)})
}

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

// answered folds a probe's result in and acts on the verdict, if it is one.
func (t *stepper) answered(probe ProbeType, r prober.Result) {
	y, p := &t.Tallies[probe], t.spec.Probes[probe]
	if !y.Asking {
		return
	}
	y.Asking = false
	if !t.wants(probe) {
		return
	}
	if !y.Due.IsZero() {
		y.Due = y.Due.Add((t.now.Sub(y.Due)/p.Period + 1) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	t.tell(probe, r, before)
	switch {
	case !verdict:
	case probe == Readiness:
		y.Result = r.Outcome
	case r.Outcome == prober.Failure:
		t.condemn(probe)
	case probe == Startup:
		y.Result, y.OnHold, y.Length = prober.Success, true, 0
		t.Started, t.StartedCh = true, t.now
	default:
		y.Result = prober.Success
	}
}

// tell records what a person would want to know of a result: failures while they
// count towards the threshold, and warnings when they are new.
func (t *stepper) tell(probe ProbeType, r, before prober.Result) {
	y, p := &t.Tallies[probe], t.spec.Probes[probe]
	switch {
	case r.Outcome == prober.Failure && y.Length <= p.FailureThreshold:
		t.record(EventUnhealthy, "%s probe failed (%d/%d): %s", probe.Title(), y.Length, p.FailureThreshold, r.Output)
	case r.Outcome == prober.Unknown && r.Cause == prober.NotAsked && before.Cause != prober.NotAsked:
		t.record(EventUnhealthy, "%s probe could not be asked, which does not count: %s", probe.Title(), r.Output)
	case r.Warning && !before.Warning:
		t.record(EventProbeWarning, "%s probe warning: %s", probe.Title(), r.Output)
	}
}

// condemn decides that the run has to end because of a liveness or startup probe.
// While the engine cannot be heard nothing is decided: the next failure comes here
// again.
func (t *stepper) condemn(probe ProbeType) {
	y := &t.Tallies[probe]
	switch {
	case t.Lost:
		return
	case t.c.AutoRemove: // stopping it would destroy it
		y.Result = prober.Failure
		return
	}
	y.Result, y.OnHold, y.Length = prober.Failure, true, 0
	cause, then := ByLiveness, "will be restarted"
	if probe == Startup {
		cause = ByStartup
	}
	if t.spec.RestartPolicy == Never {
		then = "will be stopped (restart policy Never)"
	}
	t.record(EventKilling, "Container %s failed %s probe, %s", t.c.Name, probe, then)
	t.stop(cause)
}

// stop begins a stop of ours: readiness is withdrawn from now on, the call comes
// when the drain is over.
func (t *stepper) stop(cause Cause) {
	t.Stopping, t.NotBefore = cause, t.now
	t.OwnKills, t.StopCalls = 0, 0
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
		t.Stopping, t.KilledAt = ByOperator, time.Time{}
	case t.Engine.Alive():
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

// publish makes readiness follow from everything else.
func (t *stepper) publish() {
	ready := t.ready()
	if ready == t.Ready {
		return
	}
	t.Ready, t.ReadyCh = ready, t.now
	if ready {
		t.record(EventReady, "Container %s is ready", t.c.Name)
		return
	}
	v := View{Container: t.c, Spec: t.spec, State: t.State}
	_, reason, message := v.Readiness()
	if message != "" {
		message = ": " + message
	}
	t.record(EventNotReady, "Container %s is not ready: %s%s", t.c.Name, reason, message)
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
	case t.Engine.Alive() && t.Stopping != NoCause && t.Lost && t.ShuttingDown:
		t.Stopping = NoCause // it runs, so nothing is left undone
	case t.Engine.Alive() && t.Stopping != NoCause && !t.Lost && due:
		t.Call, t.CallRun = StopCall, t.Run
		t.StopCalls++
		t.fx = append(t.fx, effect{do: doStop, grace: grace(t.spec, t.c, t.Stopping)})
	case !t.Engine.Alive() && t.Restart != NoCause && (!t.Lost || t.ShuttingDown) && due:
		t.Call, t.CallRun = StartCall, t.Run
		t.fx = append(t.fx, effect{do: doStart})
	}
}

// called takes in how our call ended.
func (t *stepper) called(in *input) {
	if in.container != nil {
		t.observed(false)
	}
	t.Call = NoCall
	switch {
	case in.call == StopCall && t.Stopping != NoCause && t.Engine.Alive():
		t.stopFailed(in.err)
	case in.call == StartCall && t.Restart != NoCause && t.Run == t.CallRun:
		t.startFailed(in.err)
	default:
		t.CallError = ""
	}
}

func (t *stepper) stopFailed(err error) {
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
	t.Backoff = t.spec.Backoff.next(t.Backoff, 0)
	if t.Backoff.Delay == 0 {
		t.Backoff = t.spec.Backoff.next(t.Backoff, 0)
	}
	t.NotBefore = t.now.Add(t.Backoff.Delay)
	if t.ShuttingDown {
		t.Restart = NoCause
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
