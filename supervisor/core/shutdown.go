package core

import "time"

// beginShutdown ends the back-off of a start that is due: nobody knows when the next
// daemon comes. until is when the shutdown is over; zero means no bound.
func (t *stepper) beginShutdown(until time.Time) {
	t.Shutdown.Begun, t.Shutdown.Until = true, until
	if t.Action.Restart != NoCause {
		t.Action.NotBefore = t.now
	}
	if t.Engine.State.Alive() && t.StopLeft() {
		t.record(EventKilling, "healthd shuts down and leaves the stop of container %s to the next daemon", t.c.Name)
	}
}

// abandonStop cancels a stop that healthd cannot make before it ends. The container runs,
// so healthd may end without it.
func (t *stepper) abandonStop() {
	waits := t.Engine.State.Alive() && t.Action.Stopping != NoCause && t.Action.Call == NoCall
	cannot := t.Lost || t.pausedBeforeStop() || t.Ending.Signalled() || t.StopRefused()
	if t.Shutdown.Begun && waits && cannot && !t.StopLeft() {
		t.Action.Stopping = NoCause
	}
}
