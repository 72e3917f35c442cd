package supervisor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container's memory outlives the daemon: it is found again by its ID. Back-off, restart
// counts and holds outlive the container, too: the next container of the same identity
// inherits them.

// forgetAfter is how long healthd remembers an identity without a container, at least.
const forgetAfter = time.Hour

// pruneMemories is how many identities without a container are kept before the loop looks
// for old ones to drop.
const pruneMemories = 1024

// loadMemories sorts what an earlier daemon stored.
func (l *loop) loadMemories(past []*core.Memory) {
	l.notSeenYet, l.removed = make(map[string]*core.Memory), make(map[string]*core.Memory)
	l.unsupervised, l.seen = make(map[string]bool), make(map[string]time.Time)
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
			l.config.Store.Forget(m.ID)
		default:
			l.removed[lineageOf(&m.Facts)] = m
			l.board.noteGone(m.Runtime, m.ID, m.Name)
		}
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
	f.Down = e.down
	return f
}

func (e *entry) memory(f *core.Facts) *core.Memory {
	return &core.Memory{Facts: *f, Gates: e.state.Gates, Restarted: e.state.Restarted, Granted: e.granted}
}

// lineage returns the key of what outlives a container: its identity, in its runtime and the
// namespace there. An ID begins with what tells these apart, see runtime.Container.EngineID.
func lineage(runtime, id, identity string) string {
	return runtime + ":" + id[:strings.LastIndexByte(id, ':')+1] + identity
}

func lineageOf(f *core.Facts) string { return lineage(f.Runtime, f.ID, f.Identity) }

// inherit gives a container that begins its first run what is remembered of its identity.
// It must not come earlier: Compose makes the new container before it removes the old one.
func (l *loop) inherit(e *entry) {
	e.change(func(s *core.State) { s.Engine.Resources = e.container.Resources })
	lineage := lineage(e.container.Runtime, e.container.ID, e.identity)
	m, ok := l.removed[lineage]
	if !ok || e.spec == nil {
		return
	}
	delete(l.removed, lineage)
	l.config.Store.Forget(m.ID)
	if time.Since(m.Gone) > forgetAfter {
		return
	}
	e.granted = m.Granted
	e.change(func(s *core.State) {
		own := s.Lasting
		s.Lasting = m.Lasting.InheritedBy(own)
		if !m.SameImageAndResources(e.container) {
			s.Lasting.Backoff = own.Backoff
		}
	})
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
		l.inherit(e)
	}
	facts := e.facts()
	l.keepRemoved(e.memory(&facts))
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

func (l *loop) keepRemoved(last *core.Memory) {
	m := *last
	m.Gone, m.Down = time.Now(), core.Outage{}
	if old, ok := l.removed[lineageOf(&m.Facts)]; ok && old.ID != m.ID {
		l.config.Store.Forget(old.ID)
	}
	l.removed[lineageOf(&m.Facts)] = &m
	l.config.Store.Remember(&m)
	if len(l.removed) >= l.pruneAt {
		l.pruneRemoved()
	}
}

func (l *loop) pruneRemoved() {
	maps.DeleteFunc(l.removed, func(_ string, m *core.Memory) bool {
		old := time.Since(m.Gone) > forgetAfter
		if old {
			l.config.Store.Forget(m.ID)
		}
		return old
	})
	l.pruneAt = max(pruneMemories, 2*len(l.removed))
}
