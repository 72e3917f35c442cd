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
	if t.Doubtful && !t.Lost && !t.now.Before(t.AskAt) {
		t.AskAt = t.now.Add(askAgain)
		t.fx = append(t.fx, Effect{Kind: DialEngine})
	}
}

// doubtful notes that a stop may be the engine's end.
func (t *stepper) doubtful() { t.Doubtful, t.DoubtAt, t.AskAt = true, t.now, t.now }

// endedBefore takes back the start of a container that had ended long before its engine.
func (t *stepper) endedBefore() {
	if t.Engine.Alive() || t.Restart != ByExit || t.Call != NoCall {
		return
	}
	t.Restart = NoCause
	t.record(EventExited, "Container %s had ended long before its engine did, and nobody knows why: it is left alone", t.c.Name)
}

// revive takes back what looked like an operator's stop and was the end of the
// engine: the engine has been started anew since. What it was about to start again by
// its own policy when it ended, it may have forgotten.
func (t *stepper) revive() {
	if t.Engine == runtime.Restarting && t.Restart == NoCause && t.Call == NoCall && !t.OperatorStopped && t.KilledAt.IsZero() {
		t.Engine = runtime.Exited
		t.startAgain()
	}
	if !t.Doubtful {
		return
	}
	t.KilledAt, t.KilledLast, t.Doubtful = time.Time{}, time.Time{}, false // what the new life knows of, it tells
	if t.OperatorStopped {
		t.OperatorStopped = false
		t.startAgain()
	}
}

// startAgain plans the start of a container that was to run on when its engine or its
// host ended. That is no failure of its own, and grows no back-off.
func (t *stepper) startAgain() {
	if t.Exit.Reason == ReasonStoppedByOperator {
		t.Exit.Reason = ReasonError
	}
	if t.c.AutoRemove || t.spec.RestartPolicy == Never {
		t.record(EventExited, "Container %s has ended with its engine (exit code %d), and stays stopped by its restart policy", t.c.Name, t.Exit.Code)
		return
	}
	t.Restart, t.NotBefore = ByExit, t.now
	if t.enginePolicy() {
		t.NotBefore = t.now.Add(BringsBack)
	}
	t.record(EventExited, "Container %s has ended with its engine (exit code %d), and is started again", t.c.Name, t.Exit.Code)
}
