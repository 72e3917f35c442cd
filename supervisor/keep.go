package supervisor

import (
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// takeUp sorts what an earlier daemon has kept.
func (l *loop) takeUp(past []core.Memory) {
	l.past, l.memories = make(map[string]core.Memory), make(map[string]core.Memory)
	l.lives, l.left = make(map[string]engineLife), make(map[string]bool)
	for _, m := range past {
		switch {
		case m.Gone.IsZero():
			l.past[m.ID] = m
			if m.Left {
				l.left[m.ID] = true
			}
		case time.Since(m.Gone) > forgetAfter:
			l.config.Store.Forget(m.ID)
		default:
			l.memories[m.Identity] = m
		}
	}
	l.guard.takeUp(past, time.Now())
}

// restore lets a container that is seen for the first time be what an earlier daemon
// knew of it, and says whether one knew it.
func (l *loop) restore(e *entry) bool {
	m, ok := l.past[e.container.ID]
	if !ok || e.spec == nil {
		return ok
	}
	delete(l.past, m.ID)
	e.facts, e.gates, e.kept = m.Facts, m.Gates, known
	e.state = m.State(e.spec, time.Now())
	e.down, e.granted = m.Down, m.Granted
	e.down.Since = earlier(m.Down.Since, time.Now()) // should the clock have been set back
	e.gap = l.left[m.ID]
	delete(l.left, m.ID)
	return true
}

// buryPast takes in, when a runtime is fully known again, that what was not told of it
// is gone. Those that have come in place of it take up what belongs to its identity.
func (l *loop) buryPast(u update) {
	for id, m := range l.past {
		if m.Runtime == u.Runtime && !slices.Contains(u.NotInspected, id) {
			l.removedUnseen(id)
		}
	}
	for _, e := range l.entriesOf(u.Runtime) {
		if e.strange && e.state.Run.ID != (runtime.Run{}) {
			l.recall(e)
		}
	}
}

// remember keeps what has changed of a container.
func (l *loop) remember(e *entry) {
	m := e.memory()
	if m.Facts == e.facts && slices.Equal(m.Gates, e.gates) {
		return
	}
	e.facts, e.gates = m.Facts, m.Gates
	e.kept = l.config.Store.Remember(m)
}

func (e *entry) memory() core.Memory {
	m := core.Memory{Facts: core.Remember(e.container, e.identity, &e.state), Gates: e.state.Gates, Granted: e.granted}
	m.Down = e.down
	return m
}

// recall takes up what is remembered of the identity whose first run this container
// has: compose makes the new container before it removes the old one.
func (l *loop) recall(e *entry) {
	e.state.Engine.Resources = e.container.Resources
	m, ok := l.memories[e.identity]
	if !ok || e.spec == nil {
		return
	}
	delete(l.memories, e.identity)
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

// gone keeps, of a container that was removed, what belongs to its identity. A
// container that never ran has nothing of its own.
func (l *loop) gone(e *entry) {
	if _, ok := l.past[e.container.ID]; ok { // it was valid once
		l.removedUnseen(e.container.ID)
		return
	}
	if e.spec == nil || e.state.Run.ID == (runtime.Run{}) {
		l.config.Store.Forget(e.container.ID)
		return
	}
	l.bury(e.memory())
}

// removedUnseen is gone for a container that is remembered but not supervised now.
func (l *loop) removedUnseen(id string) {
	if m, ok := l.past[id]; ok {
		delete(l.past, id)
		delete(l.left, id)
		l.bury(m)
	}
}

func (l *loop) bury(m core.Memory) {
	m.Gone, m.Down = time.Now(), core.Outage{}
	if old, ok := l.memories[m.Identity]; ok && old.ID != m.ID {
		l.config.Store.Forget(old.ID)
	}
	l.memories[m.Identity] = m
	l.config.Store.Remember(m)
	if len(l.memories) < l.pruneAt {
		return
	}
	maps.DeleteFunc(l.memories, func(_ string, m core.Memory) bool {
		old := time.Since(m.Gone) > forgetAfter
		if old {
			l.config.Store.Forget(m.ID)
		}
		return old
	})
	l.pruneAt = max(pruneMemories, 2*len(l.memories))
}

// forgetAfter is how long an identity without a container is remembered at least.
const forgetAfter = time.Hour

// pruneMemories is how many memories may gather before old ones are looked for.
const pruneMemories = 1024
