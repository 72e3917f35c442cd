package supervisor

import (
	"context"
	"reflect"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// killsOf asks the engine for the signals to a run that has ended: that of an operator may be lost,
// or on its way.
func killsOf(ctx context.Context, engine Restarter, run runtime.Run) []runtime.Event {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	kills, _ := engine.KillEvents(ctx, run) // without an answer, the events alone decide
	return kills
}

// hintOf is how an event tells that it belongs to that run.
func hintOf(run runtime.Run) runtime.RunHint {
	return runtime.RunHint{Run: run, Started: time.Unix(0, run.Started)}
}

// tellKills tells the core those of the signals to a run that it may not have heard of. fresh says that the newest
// of them came just now.
func (l *loop) tellKills(e *entry, of runtime.RunHint, kills []runtime.Event, fresh bool) {
	kills = e.state.Ending.Unheard(kills)
	for i, k := range kills {
		l.step(e, &core.Input{Kind: core.Signalled, Time: k.Time, Signal: k.Signal, Late: !fresh || i < len(kills)-1,
			Of: of, EngineNow: e.engine.now(), Life: e.engine.life()})
	}
}

// inspect asks the engine what the container is now, and of a run that has ended, for the signals to it: its watcher
// may tell of them later. An error ends it: who asked asks again.
func (l *loop) inspect(e *entry) {
	engine, id, m := l.restarterOf(e), e.container.ID, inspected{asked: time.Now()}
	l.wg.Go(func() {
		var err error
		if m.container, err = engine.Inspect(l.workCtx, id); err != nil {
			return
		}
		if run := m.container.Run(); !m.container.State.Alive() && run != (runtime.Run{}) {
			m.kills = killsOf(l.workCtx, engine, run)
		}
		_ = l.send(l.workCtx, m)
	})
}

// looksAtOnce bounds how many containers are inspected again after one list.
const looksAtOnce = 64

// lookAgain inspects the containers whose newest state only a look of healthd's own has shown. Their
// watcher does not know that state, so that it reports no return to the one before.
func (l *loop) lookAgain(engine *engineState) {
	left := looksAtOnce
	for _, e := range engine.entries.entries {
		switch {
		case e.container == e.reported, e.unreported, left == 0:
		case reflect.DeepEqual(e.container, e.reported):
			e.reported = e.container // compared once
		default:
			left--
			l.inspect(e)
		}
	}
}

// inspected is the message that an inspection returned.
type inspected struct {
	container *runtime.Container
	asked     time.Time       // when the inspection began
	kills     []runtime.Event // the signals to its run, if that has ended
}

func (m inspected) apply(l *loop) {
	e := l.find(m.container.ID)
	if e == nil {
		return
	}
	if !e.state.EngineRestarted && !e.state.Stale(m.container, m.asked) { // an engine that restarts sends signals, too
		of := hintOf(m.container.Run())
		if e.state.Run.ID != of.Run {
			of.Run, of.Newer = e.state.Run.ID, true
		}
		l.tellKills(e, of, m.kills, false)
	}
	l.observed(update{Runtime: m.container.Runtime, Container: m.container}, m.asked)
}

// dial asks the container's engine whether it takes new connections. One dial of an
// engine runs at a time; the core repeats a request that comes meanwhile.
func (l *loop) dial(e *entry) {
	restarter, m := l.restarterOf(e), dialed{engine: e.engine, began: time.Now()}
	if m.engine.dialing {
		return
	}
	m.engine.dialing = true
	l.wg.Go(func() {
		m.err = restarter.Accept(l.workCtx)
		_ = l.send(l.workCtx, m)
	})
}

// dialed is the message that the dial of an engine returned.
type dialed struct {
	engine *engineState
	began  time.Time
	err    error
}

func (m dialed) apply(l *loop) {
	m.engine.dialing = false
	if m.err != nil {
		return
	}
	l.eachLater(m.engine.maybeStopped.entries, func(e *entry) {
		if e.state.Ending.MaybeEngine {
			l.step(e, &core.Input{Kind: core.EngineAccepts, Time: m.began})
		}
	})
}
