package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// engineLife is what is known of an engine's present life.
type engineLife struct {
	replay runtime.Replay // until all that it runs is known again
	swept  time.Time      // runs from before that the engine has ended itself; zero: none
}

// swept says that u tells of what the engine did itself: without live-restore an
// engine that was killed ends all that it finds at its start, before it answers
// anybody.
func (l *loop) swept(e *entry, u update) bool {
	life, c := l.lives[e.container.Runtime], e.container
	old := !c.StartedAt.IsZero() && later(c.StartedAt, u.Started).Before(life.swept)
	switch u.Kind {
	case runtime.Killed:
		// Where a newer run was not seen, nor its start, the moment tells whose it was.
		patience := c.StopTimeout
		if patience < 0 {
			patience = core.EngineGrace
		}
		return old && (c.State.Alive() || u.Time.Sub(c.FinishedAt) < core.KillLate || u.Time.Sub(life.swept) < patience+core.KillLate)
	case runtime.Died:
		e.reborn = e.reborn && old // an engine that has gone could not have told it
	case runtime.Stopped:
		return life.replay == runtime.ReplayRestart // if it was anybody else's, its signal was told as well
	}
	return false
}

// tellEndsApart finds, of what has ended since a daemon last saw it run, and whose engine
// has ended since, too, that which had ended long before: somebody may have stopped it
// while nobody watched.
func (l *loop) tellEndsApart(name string) {
	var last time.Time
	slack := core.EngineEnds
	all := l.entriesOf(name)
	for _, e := range all {
		if e.ended {
			last = later(last, e.state.Run.Exit.FinishedAt)
			slack = max(slack, e.container.StopTimeout+core.EngineEnds)
		}
	}
	for _, e := range all {
		if e.ended && e.state.Run.Exit.FinishedAt.Before(last.Add(-slack)) {
			l.step(e, &core.Input{Kind: core.EndedBeforeEngine})
		}
		e.ended = false
	}
}
