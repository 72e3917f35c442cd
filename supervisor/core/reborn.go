package core

import (
	"time"

	"healthd/runtime"
)

const (
	// askAgain is how long an engine that did not take a connection is left in peace.
	askAgain = time.Second
	// engineEnds is how long an engine takes to end all that it runs, stop timeouts apart.
	EngineEnds = time.Minute
	// engineGrace is the stop timeout of a container that has none of its own.
	EngineGrace = 10 * time.Second
	// bringsBack is how long an engine with a restart policy of its own is given to
	// start a container after it was started itself.
	BringsBack = 10 * time.Second
)

// doubt asks, while it is not clear who wanted the container stopped, whether the engine
// takes new connections. One that shuts down sends stop signals to all that it runs,
// like an operator, but first it stops listening.
func (t *stepper) doubt() {
	if t.Ending.MaybeEngine && !t.Lost && !t.now.Before(t.Checks.DialAt) {
		t.Checks.DialAt = t.now.Add(askAgain)
		t.fx = append(t.fx, Effect{Kind: DialEngine})
	}
}

// doubtful notes that a stop may be the engine's end.
func (t *stepper) doubtful() {
	t.Ending.MaybeEngine, t.Checks.DoubtfulSince, t.Checks.DialAt = true, t.now, t.now
}

// endedBefore takes back the start of a container that had ended long before its engine.
func (t *stepper) endedBefore() {
	if t.Engine.State.Alive() || t.Action.Restart != ByExit || t.Action.Call != NoCall {
		return
	}
	t.Action.Restart = NoCause
	t.record(EventExited, "Container %s had ended long before its engine did, and nobody knows why: it is left alone", t.c.Name)
}

// revive takes back what looked like an operator's stop and was the end of the
// engine: the engine has been started anew since. What it was about to start again by
// its own policy when it ended, it may have forgotten.
func (t *stepper) revive() {
	if t.Engine.State == runtime.Restarting && t.Action.Restart == NoCause && t.Action.Call == NoCall && !t.Ending.OperatorStopped && t.Ending.First.IsZero() {
		t.Engine.State = runtime.Exited
		t.startAgain()
	}
	if !t.Ending.MaybeEngine {
		return
	}
	t.Ending.First, t.Ending.Last, t.Ending.MaybeEngine = time.Time{}, time.Time{}, false // what the new life knows of, it tells
	if t.Ending.OperatorStopped {
		t.Ending.OperatorStopped = false
		t.startAgain()
	}
}

// startAgain plans the start of a container that was to run on when its engine or its
// host ended. That is no failure of its own, and grows no back-off.
func (t *stepper) startAgain() {
	if t.Run.Exit.Reason == ReasonStoppedByOperator {
		t.Run.Exit.Reason = ReasonError
	}
	if t.c.AutoRemove || t.spec.RestartPolicy == Never {
		t.record(EventExited, "Container %s has ended with its engine (exit code %d), and stays stopped by its restart policy", t.c.Name, t.Run.Exit.Code)
		return
	}
	t.Action.Restart, t.Action.NotBefore = ByExit, t.now
	if t.enginePolicy() {
		t.Action.NotBefore = t.now.Add(BringsBack)
	}
	t.record(EventExited, "Container %s has ended with its engine (exit code %d), and is started again", t.c.Name, t.Run.Exit.Code)
}
