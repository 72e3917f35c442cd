package supervisor

import (
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// update is the message that a runtime reports something.
type update runtime.Update

func (u update) apply(l *loop) {
	if u.Lag > 0 {
		v := l.runtimeView(u.Runtime)
		v.Lag = u.Lag
		l.board.runtimes.Store(u.Runtime, v)
	}
	e := l.entries[u.ID]
	switch {
	case u.Kind == runtime.Lost:
		l.lost(u)
	case u.Kind == runtime.Connected:
		l.connected(u)
	case u.Kind == runtime.Synced:
		l.synced(u)
	case u.Kind == runtime.Observed:
		l.observed(u)
	case e != nil:
		u.applyTo(l, e)
	case u.Kind == runtime.Removed && l.dropped[u.ID] != nil:
		delete(l.dropped, u.ID) // its watcher knows by now that no spec matches it
	case u.Kind == runtime.Removed:
		l.removedBeforeSeen(u.ID)
	}
	// Remember was called for all that follows from the update. After an engine restart
	// that is so only when every container was inspected.
	if !u.SeenUntil.IsZero() && l.engines[u.Runtime].replay != runtime.ReplayRestart {
		l.config.Store.SetSeen(u.Runtime, u.SeenUntil)
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
		l.step(e, &in)
	}
}

// cause turns an event into the input that names a cause, which no inspection shows. Its
// Kind is 0 when the event names none.
func (l *loop) cause(e *entry, u update) core.Input {
	in := core.Input{Time: u.Time, Of: u.Of, Late: u.Late, EngineNow: l.engineNow(e.container.Runtime), Life: l.engines[e.container.Runtime].life()}
	if in.Time.IsZero() {
		in.Time = in.EngineNow
	}
	switch u.Kind {
	case runtime.Killed:
		in.Kind, in.Signal = core.Signalled, u.Signal
	case runtime.Died:
		in.Kind, in.ExitCode = core.Died, u.ExitCode
	case runtime.Stopped:
		in.Kind = core.StopCarriedOut
	}
	return in
}

// observed takes in an inspection of a container, the first one or a later one.
func (l *loop) observed(u update) {
	c := u.Container
	e, known := l.entries[c.ID]
	switch {
	case !known:
		if e = l.newEntry(c); e == nil {
			if l.dropped[c.ID] != nil {
				l.dropped[c.ID] = c // a later reload needs the newest inspection
			}
			return
		}
		delete(l.dropped, c.ID)
	case e.state.Stale(c):
		return
	case !l.setContainer(e, c):
		return
	}
	e.unreported = false
	if e.state.Run.ID == (runtime.Run{}) && c.Run() != (runtime.Run{}) {
		l.inherit(e)
	}
	for _, cause := range u.Causes {
		in := l.cause(e, update(cause))
		in.Early = true
		l.step(e, &in)
	}
	e.maybeWithEngine = e.state.EngineRestarted && e.state.Engine.State.Alive() && !c.State.Alive()
	in := core.Input{Kind: core.Observed, Container: c, EngineNow: l.engineNow(c.Runtime)}
	if !known {
		in.First, in.Unwatched = l.firstSight(e, u)
	}
	l.step(e, &in)
}

// firstSight judges a container that this daemon has not seen before. first: it existed
// before healthd watched it. unwatched: neither events nor the Store tell why it is in
// its present state.
func (l *loop) firstSight(e *entry, u update) (first, unwatched bool) {
	c := e.container
	sinceReload := time.Since(l.reloadedAt)
	first = !l.runtimeView(u.Runtime).Up || !u.StateFromEvent && c.State.Alive() && l.engineNow(c.Runtime).Sub(c.StartedAt) > sinceReload
	eventsTell := l.engines[u.Runtime].replay == runtime.ReplayComplete || e.state.Run.Died && !c.State.Alive() && c.Run() == e.state.Run.ID
	if remembered := e.remembered.ID != ""; remembered && !e.missedEvents && eventsTell {
		return first, false
	}
	if c.State.Alive() {
		return first, first
	}
	return first, !u.StateFromEvent
}

// engineLife is what is known of an engine's life: the time since its newest start.
type engineLife struct {
	replay      runtime.Replay // ReplayComplete once all its containers are known again
	kills       bool           // at its start the engine killed all runs that were still there
	lostAt      time.Time      // until when it was watched, by this daemon or the last one; zero: not known, or it is watched
	clockOffset time.Duration  // how far its clock is ahead of healthd's
}

// life is what the core needs to tell an engine's signal from an operator's.
func (e engineLife) life() core.EngineLife {
	return core.EngineLife{Restarted: e.replay == runtime.ReplayRestart, Kills: e.kills}
}

// engineNow is the present time by the engine's clock, as last measured.
func (l *loop) engineNow(runtime string) time.Time {
	return time.Now().Add(l.engines[runtime].clockOffset)
}

// lost takes in that the connection to a runtime is lost. healthd touches none of its
// containers until the runtime is back.
func (l *loop) lost(u update) {
	if life := l.engines[u.Runtime]; life.lostAt.IsZero() && l.runtimeView(u.Runtime).Up {
		life.lostAt = time.Now()
		l.engines[u.Runtime] = life
	}
	v := l.runtimeView(u.Runtime)
	v.Up, v.Err = false, u.Err
	l.board.runtimes.Store(u.Runtime, v)
	l.record("", core.EventRuntimeLost, "healthd lost the connection to runtime %s and restarts nothing there until it is back: %v", u.Runtime, u.Err)
	for _, e := range l.entriesOf(u.Runtime) {
		l.step(e, &core.Input{Kind: core.RuntimeLost})
	}
}

// connected takes in how many of the missed events the engine sends again.
func (l *loop) connected(u update) {
	life := engineLife{replay: u.Replay, kills: u.EngineKills, lostAt: l.engines[u.Runtime].lostAt, clockOffset: u.ClockOffset}
	if !l.runtimeView(u.Runtime).Synced {
		life.lostAt = l.watchedUntil
	}
	if !l.runtimeView(u.Runtime).Synced && l.config.Rebooted {
		life.replay = runtime.ReplayRestart
	}
	if old, ok := l.engines[u.Runtime]; ok && life.replay == runtime.ReplayComplete {
		old.clockOffset = u.ClockOffset
		l.engines[u.Runtime] = old // the same life: if the last connection broke before Synced, what it told still holds
		return
	}
	l.engines[u.Runtime] = life
	if life.replay != runtime.ReplayRestart {
		return
	}
	for _, e := range l.entriesOf(u.Runtime) {
		l.step(e, &core.Input{Kind: core.EngineRestarted, Early: true})
	}
}

// synced takes in that all containers of a runtime are known.
func (l *loop) synced(u update) {
	v := l.runtimeView(u.Runtime)
	wasLost := v.Err != nil
	if v.Relists == nil {
		v.Relists = make(map[string]int)
	}
	v.Relists[u.Reason]++
	back := !v.Up
	v.Up, v.Synced, v.Err = true, true, nil
	l.board.runtimes.Store(u.Runtime, v)
	if wasLost {
		l.record("", core.EventRuntimeBack, "healthd is connected to runtime %s again", u.Runtime)
	}
	if back {
		l.back(u)
	}
	life := l.engines[u.Runtime]
	life.replay, life.lostAt, life.clockOffset = runtime.ReplayComplete, time.Time{}, u.ClockOffset // healthd misses no event from now on
	l.engines[u.Runtime] = life
	if back {
		l.tellChanged() // a container that is not on the board by now is gone
	}
}

// back resumes the supervision of a runtime's containers.
func (l *loop) back(u update) {
	l.removeNotSeen(u)
	l.findEndedBeforeEngine(u.Runtime)
	for _, e := range l.entriesOf(u.Runtime) {
		e.isNew = false
	}
	for _, e := range l.entriesOf(u.Runtime) {
		l.step(e, &core.Input{Kind: core.RuntimeBack, NotInspected: slices.Contains(u.NotInspected, e.container.ID)})
	}
}

// engineShutdown is how long an engine takes to stop all its containers, their stop
// timeouts apart.
const engineShutdown = time.Minute

// findEndedBeforeEngine looks at the containers that have ended unseen, and whose engine
// has ended, too. One that ended long before the last of them did not end with the
// engine: somebody may have stopped it while healthd was away. It compares the engine's own
// times: nothing else tells when they ended. If its clock was set between those ends, a
// container may be left alone, or started, by mistake.
func (l *loop) findEndedBeforeEngine(name string) {
	var last time.Time
	slack := engineShutdown
	all := l.entriesOf(name)
	for _, e := range all {
		if e.maybeWithEngine {
			last = later(last, e.state.Run.Exit.FinishedAt)
			slack = max(slack, e.container.StopTimeout+engineShutdown)
		}
	}
	lostAt := l.engines[name].lostAt
	short := !lostAt.IsZero() && time.Since(lostAt) < slack // nothing can have ended long before
	for _, e := range all {
		if e.maybeWithEngine && !short && e.state.Run.Exit.FinishedAt.Before(last.Add(-slack)) {
			l.step(e, &core.Input{Kind: core.EndedBeforeEngine})
		}
		e.maybeWithEngine = false
	}
}

// entriesOf returns the entries of a runtime, sorted by container ID.
func (l *loop) entriesOf(name string) []*entry {
	var all []*entry
	for _, id := range slices.Sorted(maps.Keys(l.entries)) {
		if e := l.entries[id]; e.container.Runtime == name {
			all = append(all, e)
		}
	}
	return all
}

// runtimeView returns a copy of what the board shows of a runtime, to change and store.
func (l *loop) runtimeView(name string) RuntimeView {
	r, _ := l.board.runtimes.Load(name)
	v, _ := r.(RuntimeView)
	v.Name, v.Relists = name, maps.Clone(v.Relists)
	return v
}
