package supervisor

import (
	"slices"
	"strings"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// lineage is the containers of one identity, one after the other. What belongs to the identity (hold, back-off,
// restart count) is with the newest of them, whether that one is still there or not: the one that began its first run
// last, was given the name last while it ran, or that people have held or resumed since. Tools create, rename, start,
// stop and remove in every order. The next one takes all of it at its first run, and only the hold if it has run before.
// A container that another one has taken from is superseded: it goes on by what it has, and leaves nothing.
type lineage struct {
	newest string // ID of the container that has what belongs to the identity; empty: none
	before string // ID of the one before, if that is still there
}

// lineageKey is an identity in its runtime and the namespace there. An ID begins with what tells these
// apart, see runtime.Container.EngineID.
type lineageKey struct{ runtime, namespace, identity string }

func keyOf(runtime, id, identity string) lineageKey {
	return lineageKey{runtime, id[:strings.LastIndexByte(id, ':')+1], identity}
}

func (e *entry) keyOf(identity string) lineageKey {
	return keyOf(e.container.Runtime, e.container.ID, identity)
}

func lineageOf(f *core.Facts) lineageKey { return keyOf(f.Runtime, f.ID, f.Identity) }

// enlist takes in a container that an earlier daemon knew. If that was killed as one took over, two have what belongs to
// the identity: the one whose run began later is the newest.
func (l *loop) enlist(m *core.Memory) {
	if m.Gone.IsZero() && m.Run.ID == (runtime.Run{}) { // it has never run
		return
	}
	for _, identity := range []string{m.Identity, m.Was} {
		key := keyOf(m.Runtime, m.ID, identity)
		switch g := l.lineages[key]; {
		case identity == "":
		case m.Superseded:
			l.lineages[key] = lineage{newest: g.newest, before: m.ID}
		case g.newest == "" || m.Run.BeganAt.After(l.memoryOf(g.newest).Run.BeganAt):
			l.lineages[key] = lineage{newest: m.ID, before: g.before}
		}
	}
}

// leave forgets that a container is one of its lineages.
func (l *loop) leave(m *core.Memory) {
	l.leaves(m.ID, lineageOf(&m.Facts))
	l.leaves(m.ID, keyOf(m.Runtime, m.ID, m.Was))
}

func (l *loop) leaves(id string, key lineageKey) {
	g, ok := l.lineages[key]
	switch {
	case !ok:
		return
	case g.newest == id:
		g.newest = ""
	case g.before == id:
		g.before = ""
	}
	l.lineages[key] = g
	if g == (lineage{}) {
		delete(l.lineages, key)
	}
}

// memoryOf returns what is known of a container, whether it is there, was removed, or has no spec at present; nil:
// nothing is.
func (l *loop) memoryOf(id string) *core.Memory {
	if m := l.notSeenYet[id]; m != nil {
		return m
	}
	if m := l.removed[id]; m != nil {
		return m
	}
	if e := l.entries[id]; e != nil && e.spec != nil {
		facts := e.facts()
		return e.memory(&facts)
	}
	return nil
}

// inherit makes a container that has run the newest of its identity. It must not come before its first run: Compose
// makes the new container before it removes the old one. asks says that people have just held or resumed it: it has what
// belongs to the identity then.
func (l *loop) inherit(e *entry, asks bool) {
	id, key := e.container.ID, e.keyOf(e.identity)
	g, firstRun := l.lineages[key], e.state.Run.ID == (runtime.Run{})
	if e.spec == nil || g.newest == id || asks && firstRun {
		return
	}
	m := l.remembered(g.newest)
	switch {
	case m == nil && e.superseded && !asks: // under the name that it was given out of the way
		return
	case m == nil:
		l.lineages[key] = lineage{newest: id, before: l.lineages[key].before}
		e.superseded = false
		return
	case firstRun && m.Gone.IsZero() && m.Run.StartedAt.After(e.container.StartedAt): // it is older: it had no spec
		e.superseded = true
		l.lineages[key] = lineage{newest: m.ID, before: id}
		return
	case firstRun:
		l.takeAll(e, m)
	case !asks:
		l.takeHold(e, m)
	}
	l.leaves(id, e.keyOf(e.was))
	l.leave(m)
	g = lineage{newest: id}
	if m.Gone.IsZero() && m.Identity == e.identity {
		g.before = m.ID
	}
	l.lineages[key] = g
	e.superseded, e.was, e.supersedes = false, "", m
	e.granted = slices.Concat(m.Granted, e.granted)
}

// remembered is memoryOf a container, but of a removed one only while it counts.
func (l *loop) remembered(id string) *core.Memory {
	m := l.memoryOf(id)
	switch {
	case m == nil || m.Gone.IsZero():
		return m
	case time.Since(m.Gone) > forgetAfter:
		l.forgetRemoved(m)
		return nil
	case l.wentOnWithout(m):
		l.forgetBecause(m, "its service has gone on without it since it was removed")
		return nil
	}
	return m
}

// wentOnWithout says that a younger replica of its Compose service has taken a removed one's place under another number,
// as where a tool starts the new one beside the old one: that one is gone by now, too, but has outlived it for longer than
// it takes to stop both. The number that is used again is not the same container then.
func (l *loop) wentOnWithout(m *core.Memory) bool {
	service := func(m *core.Memory) lineageKey {
		return keyOf(m.Runtime, m.ID, m.Identity[:strings.LastIndexByte(m.Identity, '/')+1])
	}
	if service(m).identity == "" { // its identity is a name
		return false
	}
	for _, other := range l.removed {
		if service(other) == service(m) && other.Run.BeganAt.After(m.Run.BeganAt) && other.Gone.Sub(m.Gone) > engineShutdown {
			return true
		}
	}
	return false
}

// takeAll gives a container that begins its first run what belongs to its identity.
func (l *loop) takeAll(e *entry, m *core.Memory) {
	e.change(func(s *core.State) {
		own := s.Lasting
		s.Engine.Resources = e.container.Resources // the next observation would take them for changed ones
		s.Lasting = m.Lasting.InheritedBy(own)
		if !m.SameImageAndResources(e.container) {
			s.Lasting.Backoff = own.Backoff
		}
	})
	l.takeHold(e, m)
}

// takeHold gives a container the hold of its identity. A hold of its own is newer, unless it was superseded since.
func (l *loop) takeHold(e *entry, m *core.Memory) {
	over := !m.Lasting.HeldHereUntil.IsZero() && !m.Lasting.HeldHereUntil.After(time.Now())
	switch held := m.Lasting.HeldHere && !over; {
	case held && (!e.state.Lasting.HeldHere || e.superseded):
		l.step(e, &core.Input{Kind: core.HoldRequested, Time: m.Lasting.HeldHereUntil, Early: true})
	case !held && e.superseded:
		l.step(e, &core.Input{Kind: core.HoldEnded, Early: true})
	}
}

// handOver notes that a container has taken what belongs to its identity, once that is stored: a daemon that is killed
// between the two must not lose it.
func (l *loop) handOver(e *entry) {
	if m := e.supersedes; m != nil {
		e.supersedes = nil
		l.supersede(m)
	}
}

// supersede notes that another container has taken what belongs to the identity of this one.
func (l *loop) supersede(m *core.Memory) {
	if l.removed[m.ID] != nil {
		delete(l.removed, m.ID)
		l.config.Store.Forget(m.ID)
		return
	}
	if e := l.entries[m.ID]; e != nil && e.spec != nil {
		e.superseded, e.was, e.granted = true, "", nil
		l.remember(e)
		return
	}
	if l.notSeenYet[m.ID] == nil { // it is gone
		return
	}
	left := *m
	left.Superseded, left.Was, left.Granted = true, "", nil
	l.notSeenYet[m.ID] = &left
	l.config.Store.Remember(&left)
}

// renamed takes in that a container has another identity than before: with the old one it stays the newest until
// another container runs under it.
func (l *loop) renamed(e *entry, before string) {
	if e.state.Run.ID == (runtime.Run{}) {
		return
	}
	if !e.superseded {
		l.leaves(e.container.ID, e.keyOf(e.was))
		e.was = before
	}
	l.inherit(e, false)
}
