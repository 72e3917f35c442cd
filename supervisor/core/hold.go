package core

import (
	"time"

	"healthd/prober"
)

// hold takes in that somebody wants nothing restarted, until that moment if it is
// not zero. What healthd has begun to stop it still starts again: it is not for
// healthd to leave a container stopped.
func (t *stepper) hold(until time.Time) {
	if t.Lasting.Held && t.Lasting.HeldUntil.Equal(until) {
		return
	}
	t.Lasting.Held, t.Lasting.HeldUntil = true, until
	if t.Action.Stopping != NoCause && t.Engine.State.Alive() && t.Action.StopCalls == 0 && t.Run.Hooks[PreStop] != HookRunning && t.Action.Stopping != ByOperator {
		if t.Action.Stopping.ByProbe() { // another network is seen again when the hold is over
			t.Health.Failed = t.Action.Stopping
		}
		t.Action.Stopping = NoCause
		for i := range t.Health.Probes { // it may recover
			if y := &t.Health.Probes[i]; y.Result == prober.Failure {
				y.OnHold = false
			}
		}
	}
	if until.IsZero() {
		t.record(EventHeld, "Container %s is held: nothing restarts it until somebody resumes it", t.c.Name)
		return
	}
	t.record(EventHeld, "Container %s is held: nothing restarts it for %v", t.c.Name, until.Sub(t.now).Round(time.Second))
}

// endHold ends a hold whose time is over.
func (t *stepper) endHold() {
	if t.Lasting.Held && !t.Lasting.HeldUntil.IsZero() && !t.now.Before(t.Lasting.HeldUntil) {
		t.resume("the time is over")
	}
}

func (t *stepper) resume(why string) {
	if !t.Lasting.Held {
		return
	}
	t.Lasting.Held, t.Lasting.HeldUntil = false, time.Time{}
	t.record(EventResumed, "Container %s is no longer held: %s", t.c.Name, why)
}

// startBlocked says that a start which is due does not come because of a hold, or because
// it would fail for want of a network. A hold lets starts through that follow a stop
// of ours.
func (s *State) startBlocked() bool {
	return s.Lasting.Held && s.Action.Restart == ByExit || s.Engine.NetworkAway
}
