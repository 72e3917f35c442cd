package supervisor

import (
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// engineState is what the loop knows of a runtime.
type engineState struct {
	engineLife
	known        bool        // engineLife is that of its present life
	view         RuntimeView // the Board shows it once all containers have taken it in
	dialing      bool        // a goroutine dials it now
	entries      entrySet
	maybeStopped entrySet  // those that the engine may have stopped because it shuts down
	starting     int       // start calls under way, those apart that may hang
	startQueue   entryHeap // those whose start is Request.Queued; the one that became due first comes first
}

// engineLife is what is known of an engine's life: the time since its newest start.
type engineLife struct {
	replay      runtime.Replay // ReplayComplete once all its containers are known again
	kills       bool           // at its start the engine killed all runs that were still there
	began       time.Time      // by its clock, if events since are lost; zero: none are
	lostAt      time.Time      // until when it was watched, by this daemon or the last one; zero: not known, or it is watched
	cutOffAt    time.Time      // by its clock: when it ended this daemon's event stream; zero: it did not, or it is watched
	clockOffset time.Duration  // how far its clock is ahead of healthd's
}

// life is what the core needs to tell an engine's signal from an operator's.
func (e engineLife) life() core.EngineLife {
	return core.EngineLife{Restarted: e.replay == runtime.ReplayRestart, Kills: e.kills, Began: e.began}
}

// now is the present time by the engine's clock, as last measured.
func (e engineLife) now() time.Time { return time.Now().Add(e.clockOffset) }

// engine returns the state of a runtime, a new one at the first call.
func (l *loop) engine(name string) *engineState {
	s := l.engines[name]
	if s == nil {
		s = &engineState{
			view:    RuntimeView{Name: name, Relists: make(map[string]int)},
			entries: entrySet{place: func(e *entry) *int { return &e.inEngine }},
			startQueue: entryHeap{
				less:  func(a, b *entry) bool { return a.state.Action.NotBefore.Before(b.state.Action.NotBefore) },
				place: func(e *entry) *int { return &e.startQueued },
			},
			maybeStopped: entrySet{place: func(e *entry) *int { return &e.inMaybeStopped }},
		}
		l.engines[name] = s
	}
	return s
}

// allEntries returns the entries of all runtimes.
func (l *loop) allEntries() []*entry {
	var all []*entry
	for _, name := range slices.Sorted(maps.Keys(l.engines)) {
		all = append(all, l.engines[name].entries.entries...)
	}
	return all
}

// showEngine puts a runtime's view on the board.
func (l *loop) showEngine(name string) {
	v := l.engine(name).view
	v.Relists = maps.Clone(v.Relists)
	l.afterBacklog(func() {
		l.board.runtimes.set(name, v)
		l.board.gone.prune(l.board.Synced())
	})
}

// lost takes in that the connection to a runtime is lost, or another reason why it still is. healthd
// touches none of its containers until the runtime is back.
func (l *loop) lost(u update) {
	engine := l.engine(u.Runtime)
	if !engine.view.Up && engine.view.Err != nil {
		engine.view.Err = u.Err
		l.showEngine(u.Runtime)
		return
	}
	if engine.lostAt.IsZero() && engine.view.Up {
		engine.lostAt = time.Now()
		if runtime.Ended(u.Err) {
			engine.cutOffAt = engine.now()
		}
	}
	engine.view.Up, engine.view.Err = false, u.Err
	l.showEngine(u.Runtime)
	l.record("", core.EventRuntimeLost, "healthd lost the connection to runtime %s and restarts nothing there until it is back: %v", u.Runtime, u.Err)
	l.eachLater(engine.entries.entries, func(e *entry) { l.step(e, &core.Input{Kind: core.RuntimeLost}) })
}

// connected takes in how many of the missed events the engine sends again.
func (l *loop) connected(u update) {
	engine := l.engine(u.Runtime)
	life := engineLife{replay: u.Replay, kills: u.EngineKills, began: u.EngineBegan, lostAt: engine.lostAt, cutOffAt: engine.cutOffAt, clockOffset: u.ClockOffset}
	if !engine.view.Synced {
		life.lostAt = l.watchedUntil
	}
	goesOn := engine.known && life.replay == runtime.ReplayComplete
	if !engine.view.Synced && !goesOn && slices.Contains(l.config.Rebooted, u.Runtime) {
		life.replay = runtime.ReplayRestart
	}
	sameLife := life.replay == runtime.ReplayComplete || life.replay == runtime.ReplayUnknown && engine.replay == runtime.ReplayRestart && !engine.began.IsZero()
	if engine.known && sameLife {
		engine.clockOffset = u.ClockOffset
		return // if the last connection broke before Synced, what it told still holds
	}
	engine.engineLife, engine.known = life, true
	if life.replay == runtime.ReplayRestart {
		l.eachLater(engine.entries.entries, func(e *entry) { l.step(e, &core.Input{Kind: core.EngineRestarted, Early: true}) })
	}
}

// synced takes in that all containers of a runtime are known.
func (l *loop) synced(u update) {
	engine := l.engine(u.Runtime)
	v := &engine.view
	back, wasLost := !v.Up, v.Err != nil
	if !v.Synced {
		l.guard.recheckAll()
	}
	v.Up, v.Synced, v.Err, v.Unseen = true, true, nil, u.Unseen
	v.Relists[u.Reason]++
	if wasLost {
		l.record("", core.EventRuntimeBack, "healthd is connected to runtime %s again", u.Runtime)
	}
	if back {
		l.back(u)
	}
	engine.replay, engine.known = runtime.ReplayComplete, true // healthd misses no event from now on
	engine.lostAt, engine.cutOffAt, engine.clockOffset = time.Time{}, time.Time{}, u.ClockOffset
	l.lookAgain(engine)
	l.showEngine(u.Runtime)
	if back {
		l.afterBacklog(func() { l.tellChanged("") }) // a container that is not on the board by now is gone
	}
}

// back resumes the supervision of a runtime's containers.
func (l *loop) back(u update) {
	notInspected := make(map[string]bool)
	for _, id := range u.NotInspected {
		notInspected[id] = true
	}
	l.removeNotSeen(u.Runtime, notInspected)
	engine := l.engine(u.Runtime)
	all := engine.entries.entries
	endedBefore, livedOn := engine.endedBefore(all), slices.ContainsFunc(all, func(e *entry) bool { return e.livedOn(notInspected) })
	l.eachLater(all, func(e *entry) {
		e.isNew = false
		switch {
		case !e.maybeWithEngine:
		case endedBefore(e) && (!livedOn || e.state.Ending.Unwatched):
			l.step(e, &core.Input{Kind: core.EndedBeforeEngine})
		case livedOn:
			l.step(e, &core.Input{Kind: core.EngineLivedOn})
		}
		e.maybeWithEngine, e.outlived = false, false
		l.step(e, &core.Input{Kind: core.RuntimeBack, NotInspected: notInspected[e.container.ID]})
	})
}

// livedOn says that the run of before a restart of the engine still goes on: that restart has ended none. The engine shows
// it, or has nothing new to show of it.
func (e *entry) livedOn(notInspected map[string]bool) bool {
	return e.outlived || e.state.EngineRestarted && e.state.Engine.State.Alive() && !notInspected[e.container.ID] && !e.unreported
}

// engineShutdown is how long an engine takes to stop all its containers, their stop
// timeouts apart.
const engineShutdown = time.Minute

// endedBefore looks at the containers that have ended unseen, and whose engine has ended, too.
// It returns whether one ended long before the engine: somebody may have stopped it while
// healthd was away. One that ended soon after the engine closed healthd's connection ended
// with it, however long the engine was away; else one that ended long before the last of
// them did not. It compares the engine's own times, and with them the moment at which the
// connection was closed, by the offset measured before: nothing else tells when they
// ended. If a clock was set meanwhile, a container may be left alone, or started, by mistake.
func (l engineLife) endedBefore(all []*entry) func(*entry) bool {
	var last time.Time
	slack := engineShutdown
	for _, e := range all {
		if e.maybeWithEngine {
			last = later(last, e.state.Run.Exit.FinishedAt)
			slack = max(slack, e.container.StopTimeout+engineShutdown)
		}
	}
	return func(e *entry) bool {
		end := e.state.Run.Exit.FinishedAt
		switch {
		case !l.cutOffAt.IsZero() && !end.After(l.cutOffAt.Add(e.container.StopTimeout+engineShutdown)):
			return false
		case !l.lostAt.IsZero() && time.Since(l.lostAt) < slack: // nothing can have ended long before
			return false
		}
		return end.Before(last.Add(-slack))
	}
}
