package supervisor

import (
	"time"

	"healthd/runtime"
)

// An engine that shuts down sends stop signals to all that it runs, like an operator,
// and is gone about a second after the last has ended.
const (
	// engineOutlives is how long the engine must live on after a container has ended
	// of somebody's signal for that to be somebody's wish. While all else that goes on
	// is being stopped too, it may be the engine's end that waits for the slowest.
	engineOutlives = 5 * time.Second
	// sameTime is how far apart the signals of an engine's end may be.
	sameTime = 2 * time.Second
	// engineEnds is how long an engine takes to end as a rule.
	engineEnds = 20 * time.Second
	// bringsBack is how long an engine with a restart policy of its own is given to
	// start a container after it was started itself.
	bringsBack = 10 * time.Second
)

// settleWish makes an operator's stop final that the engine has outlived.
func (t *stepper) settleWish(ending bool) {
	switch {
	case t.Lost || !t.wishDue(t.now):
	case ending:
		t.WishDue = t.now.Add(engineOutlives)
	default:
		t.Doubtful, t.WishDue = false, time.Time{}
	}
}

func (s *State) wishDue(now time.Time) bool { return !s.WishDue.IsZero() && !now.Before(s.WishDue) }

// ending says that the engine may be ending since e was sent its signal: all that goes
// on there is being stopped, nothing of it since much later, and of what was sent a
// signal at the same time something goes on or has just ended. Whether something goes
// on that healthd has nothing to do with is not known, and the engine waits for that,
// too.
func (l *loop) ending(e *entry, now time.Time) bool {
	with := now.Sub(e.state.KilledAt) < engineEnds
	for _, other := range l.entries {
		s := &other.state
		same := s.KilledAt.Sub(e.state.KilledAt).Abs() < sameTime
		switch alive := s.Engine.Alive(); {
		case other == e || other.container.Runtime != e.container.Runtime:
		case alive && (!s.Draining() || s.KilledAt.Sub(e.state.KilledAt) >= sameTime):
			return false
		case alive && (same || s.Stopping != NoCause), same && now.Sub(later(s.AliveAt, s.Exit.FinishedAt)) < engineOutlives:
			with = true
		}
	}
	return with
}

// engineLife is what is known of an engine's present life.
type engineLife struct {
	replay runtime.Replay // until all that it runs is known again
	swept  time.Time      // runs from before that the engine has ended itself; zero: none
}

// swept says that u tells of what the engine did itself: without live-restore an
// engine that was killed ends all that it finds at its start, before it answers
// anybody.
func (l *loop) swept(e *entry, u update) bool {
	life := l.lives[e.container.Runtime]
	old := later(e.container.StartedAt, u.Started).Before(life.swept)
	switch u.Kind {
	case runtime.Killed:
		return old
	case runtime.Died:
		e.reborn = e.reborn && old // an engine that has gone could not have told it
	case runtime.Stopped:
		return life.replay == runtime.ReplayRestart // if it was anybody else's, its signal was told as well
	}
	return false
}

// revive takes back what looked like an operator's stop and was the end of the
// engine: the engine has been started anew since.
func (t *stepper) revive() {
	if !t.Doubtful {
		return
	}
	t.KilledAt, t.Doubtful, t.WishDue = time.Time{}, false, time.Time{}
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
		t.NotBefore = t.now.Add(bringsBack)
	}
	t.record(EventExited, "Container %s has ended with its engine (exit code %d), and is started again", t.c.Name, t.Exit.Code)
}
