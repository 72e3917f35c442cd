package supervisor

import (
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// loadMemories sorts what an earlier daemon has kept.
func (l *loop) loadMemories(past []core.Memory) {
	l.notSeenYet, l.removed = make(map[string]core.Memory), make(map[string]core.Memory)
	l.engines, l.unsupervised = make(map[string]engineLife), make(map[string]bool)
	for _, m := range past {
		switch {
		case m.Gone.IsZero():
			l.notSeenYet[m.ID] = m
			if m.Left {
				l.unsupervised[m.ID] = true
			}
		case time.Since(m.Gone) > forgetAfter:
			l.config.Store.Forget(m.ID)
		default:
			l.removed[m.Identity] = m
		}
	}
	l.guard.loadGranted(past, time.Now())
}

// restore lets a container that is seen for the first time be what an earlier daemon
// knew of it, and says whether one knew it.
func (l *loop) restore(e *entry) bool {
	m, ok := l.notSeenYet[e.container.ID]
	if !ok || e.spec == nil {
		return ok
	}
	delete(l.notSeenYet, m.ID)
	e.remembered, e.rememberedGates, e.durable = m.Facts, m.Gates, closedChannel
	e.state = m.State(e.spec, time.Now())
	e.down, e.granted = m.Down, m.Granted
	e.down.Since = earlier(m.Down.Since, time.Now()) // should the clock have been set back
	e.missedEvents = l.unsupervised[m.ID]
	delete(l.unsupervised, m.ID)
	return true
}

// settleNotSeen takes in, when a runtime is fully known again, that what was not told of it
// is gone. Those that have come in place of it take up what belongs to its identity.
func (l *loop) settleNotSeen(u update) {
	for id, m := range l.notSeenYet {
		if m.Runtime == u.Runtime && !slices.Contains(u.NotInspected, id) {
			l.removedBeforeSeen(id)
		}
	}
	for _, e := range l.entriesOf(u.Runtime) {
		if e.firstSeen && e.state.Run.ID != (runtime.Run{}) {
			l.inherit(e)
		}
	}
}

// remember keeps what has changed of a container.
func (l *loop) remember(e *entry) {
	m := e.memory()
	if m.Facts == e.remembered && slices.Equal(m.Gates, e.rememberedGates) {
		return
	}
	e.remembered, e.rememberedGates = m.Facts, m.Gates
	e.durable = l.config.Store.Remember(m)
}

func (e *entry) memory() core.Memory {
	m := core.Memory{Facts: core.Remember(e.container, e.identity, &e.state), Gates: e.state.Gates, Granted: e.granted}
	m.Down = e.down
	return m
}

// inherit takes up what is remembered of the identity whose first run this container
// has: compose makes the new container before it removes the old one.
func (l *loop) inherit(e *entry) {
	e.state.Engine.Resources = e.container.Resources
	m, ok := l.removed[e.identity]
	if !ok || e.spec == nil {
		return
	}
	delete(l.removed, e.identity)
	l.config.Store.Forget(m.ID)
	if time.Since(m.Gone) > forgetAfter {
		return
	}
	e.state.Lasting.Restarts, e.state.Lasting.Held, e.state.Lasting.HeldUntil = m.Lasting.Restarts, m.Lasting.Held, m.Lasting.HeldUntil
	e.granted = m.Granted
	if m.MadeOf(e.container) {
		e.state.Lasting.Backoff = m.Lasting.Backoff
	}
}

// rememberRemoved keeps, of a container that was removed, what belongs to its identity. A
// container that never ran has nothing of its own.
func (l *loop) rememberRemoved(e *entry) {
	if _, ok := l.notSeenYet[e.container.ID]; ok { // it was valid once
		l.removedBeforeSeen(e.container.ID)
		return
	}
	if e.spec == nil || e.state.Run.ID == (runtime.Run{}) {
		l.config.Store.Forget(e.container.ID)
		return
	}
	l.keepRemoved(e.memory())
}

// removedBeforeSeen is gone for a container that is remembered but not supervised now.
func (l *loop) removedBeforeSeen(id string) {
	if m, ok := l.notSeenYet[id]; ok {
		delete(l.notSeenYet, id)
		delete(l.unsupervised, id)
		l.keepRemoved(m)
	}
}

func (l *loop) keepRemoved(m core.Memory) {
	m.Gone, m.Down = time.Now(), core.Outage{}
	if old, ok := l.removed[m.Identity]; ok && old.ID != m.ID {
		l.config.Store.Forget(old.ID)
	}
	l.removed[m.Identity] = m
	l.config.Store.Remember(m)
	if len(l.removed) < l.pruneAt {
		return
	}
	maps.DeleteFunc(l.removed, func(_ string, m core.Memory) bool {
		old := time.Since(m.Gone) > forgetAfter
		if old {
			l.config.Store.Forget(m.ID)
		}
		return old
	})
	l.pruneAt = max(pruneMemories, 2*len(l.removed))
}

// forgetAfter is how long an identity without a container is remembered at least.
const forgetAfter = time.Hour

// pruneMemories is how many memories may gather before old ones are looked for.
const pruneMemories = 1024
