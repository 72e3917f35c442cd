package supervisor

import (
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container's memory outlives the daemon: it is found again by its ID. What outlives the container, too, is in
// lineage.go.

// forgetAfter is how long healthd remembers an identity without a container, at least.
const forgetAfter = time.Hour

// pruneMemories is how many identities without a container are kept before the loop looks
// for old ones to drop.
const pruneMemories = 1024

// loadMemories sorts what an earlier daemon stored.
func (l *loop) loadMemories(past []*core.Memory) {
	l.notSeenYet, l.removed = make(map[string]*core.Memory), make(map[string]*core.Memory)
	l.unsupervised, l.seen = make(map[string]bool), make(map[string]time.Time)
	l.lineages = make(map[lineageKey]lineage)
	for _, m := range past {
		if l.config.Places == nil && m.Lasting.FleetHold != "" { // without a fleet nothing else ends it
			own := *m
			endFleetHold(&own)
			m = &own
		}
		l.watchedUntil = later(l.watchedUntil, m.Written.Wall)
		switch {
		case m.Gone.IsZero():
			l.notSeenYet[m.ID] = m
			if m.DroppedByReload {
				l.unsupervised[m.ID] = true
			}
		case time.Since(m.Gone) > forgetAfter:
			l.forgetRemoved(m)
			continue
		default:
			l.removed[m.ID] = m
			l.board.noteGone(m.Runtime, m.ID, m.Name)
		}
		l.enlist(m)
	}
	l.guard.budget.load(past, time.Now())
}

// endFleetHold forgets that the fleet holds a container.
func endFleetHold(m *core.Memory) {
	kept := *m.Kept
	kept.Lasting.FleetHold, kept.Lasting.FleetHoldOver = "", false
	m.Kept = &kept
}

// storeSeen stores how far events are processed, unless something that follows from them
// is still in the backlog.
func (l *loop) storeSeen() {
	if len(l.backlog) > 0 {
		return
	}
	for name, at := range l.seen {
		l.config.Store.SetSeen(name, at)
		delete(l.seen, name)
	}
}

// restore gives a new entry the state that is remembered of its container. It returns
// false when nothing is remembered.
func (l *loop) restore(e *entry) bool {
	m, ok := l.notSeenYet[e.container.ID]
	if !ok || e.spec == nil {
		return ok
	}
	delete(l.notSeenYet, m.ID)
	e.remembered, e.durable = m, closedChannel
	now := time.Now()
	state, events := m.State(e.spec, e.container, now, &l.room)
	e.state = &state
	for i := range events {
		l.carryOut(e, &events[i], now)
	}
	e.down, e.granted = m.Down, m.Granted
	e.was, e.superseded = m.Was, m.Superseded
	e.missedEvents = l.unsupervised[m.ID]
	delete(l.unsupervised, m.ID)
	return true
}

// remember stores what has changed of a container.
func (l *loop) remember(e *entry) {
	facts := e.facts()
	if old := e.remembered; old != nil && facts.Equal(&old.Facts) && slices.Equal(e.state.Gates, old.Gates) {
		return
	}
	e.remembered = e.memory(&facts)
	e.durable = l.config.Store.Remember(e.remembered)
}

func (e *entry) facts() core.Facts {
	f := core.Remember(e.container, e.identity, e.state)
	f.Down, f.Was, f.Superseded = e.down, e.was, e.superseded
	return f
}

func (e *entry) memory(f *core.Facts) *core.Memory {
	return &core.Memory{Facts: *f, Gates: e.state.Gates, Restarted: e.state.Restarted, Granted: e.granted}
}

// removeNotSeen runs when all containers of a runtime are known: those that are remembered
// but were not reported are gone. Those with invalid labels are there.
func (l *loop) removeNotSeen(name string, notInspected map[string]bool) {
	for id, m := range l.notSeenYet {
		if m.Runtime == name && !notInspected[id] && l.entries[id] == nil {
			l.removedBeforeSeen(id)
		}
	}
}

// rememberRemoved keeps what belongs to the identity of a removed container. A container
// that never ran leaves nothing but a hold by people.
func (l *loop) rememberRemoved(e *entry) {
	if _, ok := l.notSeenYet[e.container.ID]; ok { // its labels are invalid, but once were not
		l.removedBeforeSeen(e.container.ID)
		return
	}
	neverRan := e.state.Run.ID == (runtime.Run{})
	if e.spec == nil || neverRan && !e.state.Lasting.HeldHere {
		l.config.Store.Forget(e.container.ID)
		return
	}
	if neverRan {
		l.inherit(e, false)
	}
	facts := e.facts()
	l.keepRemoved(e.memory(&facts))
	l.handOver(e)
}

// removedBeforeSeen takes in that a container was removed of which the loop has a memory
// but no entry.
func (l *loop) removedBeforeSeen(id string) {
	if m, ok := l.notSeenYet[id]; ok {
		delete(l.notSeenYet, id)
		delete(l.unsupervised, id)
		l.board.noteGone(m.Runtime, m.ID, m.Name)
		l.keepRemoved(m)
	}
}

// keepRemoved keeps the memory of a removed container. An older one of its identity that is still there takes what is
// the identity's.
func (l *loop) keepRemoved(last *core.Memory) {
	m := *last
	m.Gone, m.Down = time.Now(), core.Outage{}
	if m.Superseded {
		l.forgetRemoved(&m)
		return
	}
	l.removed[m.ID] = &m
	if before := l.entries[l.lineages[lineageOf(&m.Facts)].before]; before != nil && before.identity == m.Identity {
		l.inherit(before, false)
		l.step(before, &core.Input{Kind: core.Tick})
		return
	}
	l.config.Store.Remember(&m)
	if len(l.removed) >= l.pruneAt {
		l.pruneRemoved()
	}
}

func (l *loop) pruneRemoved() {
	for _, m := range l.removed {
		if time.Since(m.Gone) > forgetAfter {
			l.forgetRemoved(m)
		}
	}
	l.pruneAt = max(pruneMemories, 2*len(l.removed))
}

// forgetRemoved forgets a removed container. A hold that no newer one has taken ends with that.
func (l *loop) forgetRemoved(m *core.Memory) {
	l.forgetBecause(m, "it was removed more than "+forgetAfter.String()+" ago")
}

func (l *loop) forgetBecause(m *core.Memory, why string) {
	if until := m.Lasting.HeldHereUntil; m.Lasting.HeldHere && !m.Superseded && (until.IsZero() || until.After(time.Now())) {
		l.record(m.Name, core.EventResumed, "Container %s is no longer held: %s", m.Name, why)
	}
	delete(l.removed, m.ID)
	l.leave(m)
	l.config.Store.Forget(m.ID)
}
