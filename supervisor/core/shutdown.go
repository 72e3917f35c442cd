package core

// Shutdown is the end of healthd itself.
type Shutdown struct {
	Begun    bool
	RunBegan bool // the run began during it: if it crashes, that is how healthd leaves it
	LeftOver bool // a start is due, and is left to the next daemon
}

// beginShutdown brings everything that waits for its start forward: who knows when
// healthd is back.
func (t *stepper) beginShutdown() {
	t.Shutdown.Begun = true
	if t.Action.Restart != NoCause {
		t.Action.NotBefore = t.now
	}
}

// abandonStop ends a stop that cannot be made any more: the container runs, so nothing is
// left undone.
func (t *stepper) abandonStop() {
	if t.Engine.State.Alive() && t.Action.Stopping != NoCause && t.Action.Call == NoCall && (t.Lost || t.pausedBeforeStop()) && t.Shutdown.Begun {
		t.Action.Stopping = NoCause
	}
}
