package core

// beginShutdown ends the back-off of a start that is due: nobody knows when the next
// daemon comes.
func (t *stepper) beginShutdown() {
	t.Shutdown.Begun = true
	if t.Action.Restart != NoCause {
		t.Action.NotBefore = t.now
	}
}

// abandonStop cancels a stop that healthd cannot make before it ends. The container runs,
// so healthd may end without it.
func (t *stepper) abandonStop() {
	if t.Engine.State.Alive() && t.Action.Stopping != NoCause && t.Action.Call == NoCall && (t.Lost || t.pausedBeforeStop()) && t.Shutdown.Begun {
		t.Action.Stopping = NoCause
	}
}
