package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// engineLife is what is known of an engine's present life.
type engineLife struct {
	replay      runtime.Replay // until all that it runs is known again
	killedUntil time.Time      // it ended all runs from before that moment itself; zero: none
}

// core is what decides whose a signal is.
func (e engineLife) core() core.EngineLife {
	return core.EngineLife{Restarted: e.replay == runtime.ReplayRestart, KilledUntil: e.killedUntil}
}

// engineEnds is how long an engine takes to end all that it runs, stop timeouts apart.
const engineEnds = time.Minute

// findEndedLongBefore finds, of what has ended since a daemon last saw it run, and whose engine
// has ended since, too, that which had ended long before: somebody may have stopped it
// while nobody watched.
func (l *loop) findEndedLongBefore(name string) {
	var last time.Time
	slack := engineEnds
	all := l.entriesOf(name)
	for _, e := range all {
		if e.endedWithEngine {
			last = later(last, e.state.Run.Exit.FinishedAt)
			slack = max(slack, e.container.StopTimeout+engineEnds)
		}
	}
	for _, e := range all {
		if e.endedWithEngine && e.state.Run.Exit.FinishedAt.Before(last.Add(-slack)) {
			l.step(e, &core.Input{Kind: core.EndedBeforeEngine})
		}
		e.endedWithEngine = false
	}
}
