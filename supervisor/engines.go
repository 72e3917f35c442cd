package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// update is the message that a runtime reports something.
type update runtime.Update

func (u update) apply(l *loop) {
	if u.Lag > 0 {
		l.engine(u.Runtime).view.Lag = u.Lag
		if len(l.backlog) == 0 { // else it is shown with what is in there, or with the next event
			l.showEngine(u.Runtime)
		}
	}
	e := l.find(u.ID)
	switch {
	case u.Kind == runtime.Lost:
		l.lost(u)
	case u.Kind == runtime.Connected:
		l.connected(u)
	case u.Kind == runtime.Synced:
		l.synced(u)
	case u.Kind == runtime.Observed:
		l.observed(u, time.Time{})
		if e = l.find(u.Container.ID); e != nil {
			e.reported = u.Container
		}
	case e != nil:
		u.applyTo(l, e)
	case u.Kind == runtime.Removed:
		delete(l.dropped, u.ID) // its watcher knows by now that no spec matches it
		if !u.Unwanted {
			l.removedBeforeSeen(u.ID)
		}
	}
	// Remember was called for all that follows from the update. After an engine restart
	// that is so only when every container was inspected.
	if !u.SeenUntil.IsZero() && l.engine(u.Runtime).replay != runtime.ReplayRestart {
		l.seen[u.Runtime] = u.SeenUntil
		l.storeSeen()
	}
}

// applyTo takes in an event of one container.
func (u update) applyTo(l *loop, e *entry) {
	switch {
	case u.Kind != runtime.Removed:
	case u.Unwanted:
		l.stopsReporting(e)
		return
	default:
		l.remove(e)
		return
	}
	if in := l.cause(e, u); in.Kind != 0 {
		if e.spec == nil {
			e.unjudged.hear(u)
		}
		l.step(e, &in)
	}
}

// cause turns an event into the input that names a cause, which no inspection shows. Its
// Kind is 0 when the event names none.
func (l *loop) cause(e *entry, u update) core.Input {
	in := core.Input{Time: u.Time, Of: u.Of, Late: u.Late, EngineNow: e.engine.now(), Life: e.engine.life()}
	if in.Time.IsZero() {
		in.Time = in.EngineNow
	}
	switch u.Kind {
	case runtime.Killed:
		in.Kind, in.Signal = core.Signalled, u.Signal
	case runtime.Died:
		in.Kind, in.ExitCode = core.Died, u.ExitCode
	case runtime.Stopped:
		in.Kind, in.ByOthers = core.StopCarriedOut, u.ByOthers
	}
	return in
}

// observed takes in an inspection of a container, the first one or a later one. asked is when healthd began to ask for
// it; zero: not known.
func (l *loop) observed(u update, asked time.Time) {
	c := u.Container
	e := l.find(c.ID)
	known := e != nil
	switch {
	case !known:
		if e = l.newEntry(c); e == nil {
			if l.dropped[c.ID] != nil {
				l.dropped[c.ID] = c // a later reload needs the newest inspection
			}
			return
		}
		delete(l.dropped, c.ID)
	case e.state.Stale(c, asked):
		if asked.IsZero() && e.state.Refutes(c) {
			l.inspect(e) // what it shows is newer
		}
		return
	case !l.setContainer(e, c):
		return
	}
	e.unreported = false
	if e.state.Run.ID == (runtime.Run{}) && c.Run() != (runtime.Run{}) {
		l.inherit(e, false)
	}
	for _, cause := range u.Causes {
		in := l.cause(e, update(cause))
		in.Early = true
		l.step(e, &in)
	}
	life := e.engine.life()
	e.maybeWithEngine = e.state.EngineRestarted && e.state.Engine.State.Alive() && !c.State.Alive() && !life.EndedSince(c)
	e.outlived = e.outlived || e.state.EngineRestarted && c.State.Alive() && c.Run() == e.state.Run.ID
	in := core.Input{Kind: core.Observed, Container: c, EngineNow: e.engine.now(), Life: life}
	if !known {
		in.First, in.Unwatched = l.firstSight(e, u)
		if e.spec == nil {
			e.unjudged = unjudged{heard: u.Causes, ended: !c.State.Alive() && !in.Unwatched}
		}
	}
	l.step(e, &in)
}

// firstSight judges a container that this daemon has not seen before. first: it existed
// before healthd watched it. unwatched: neither events nor the Store tell why it is in
// its present state.
func (l *loop) firstSight(e *entry, u update) (first, unwatched bool) {
	c := e.container
	sinceReload := time.Since(l.reloadedAt)
	first = !e.engine.view.Up || !u.StateFromEvent && c.State.Alive() && e.engine.now().Sub(c.StartedAt) > sinceReload
	eventsTell := e.engine.replay == runtime.ReplayComplete || e.state.Run.Died && !c.State.Alive() && c.Run() == e.state.Run.ID
	if remembered := e.remembered != nil; remembered && !e.missedEvents && eventsTell {
		return first, false
	}
	if c.State.Alive() {
		return first, first
	}
	return first, !u.StateFromEvent
}
