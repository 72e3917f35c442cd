package supervisor

import (
	"fmt"
	"maps"
	"time"

	"healthd/runtime"
)

// update is the message that a runtime reports something.
type update runtime.Update

func (u update) apply(l *loop) {
	if u.Lag > 0 {
		v := l.runtimeView(u.Runtime)
		v.Lag = u.Lag
		l.board.runtimes.Store(u.Runtime, v)
	}
	switch u.Kind {
	case runtime.Lost:
		l.lost(u)
		return
	case runtime.Synced:
		l.synced(u)
		return
	case runtime.Observed:
		l.observed(u)
		return
	}
	if e := l.entries[u.ID]; e != nil {
		u.applyTo(l, e)
	}
}

// applyTo takes in what events told of one container.
func (u update) applyTo(l *loop, e *entry) {
	switch u.Kind {
	case runtime.Removed:
		l.remove(e)
	case runtime.Killed:
		at := u.Time
		if at.IsZero() {
			at = time.Now()
		}
		l.step(e, &input{kind: killed, signal: u.Signal, time: at})
	case runtime.Died:
		l.step(e, &input{kind: died, code: u.ExitCode})
	case runtime.Stopped:
		l.step(e, &input{kind: stopCarriedOut})
	}
}

// observed takes a container in, the first time or again.
func (l *loop) observed(u update) {
	c := u.Container
	e, known := l.entries[c.ID]
	switch {
	case !known:
		if e = l.newEntry(c); e == nil {
			return
		}
	case e.state.stale(c):
		return
	default:
		l.setContainer(e, c)
	}
	if e.state.Run == (runtime.Run{}) && c.Run() != (runtime.Run{}) {
		l.recall(e)
	}
	for _, cause := range u.Causes {
		update(cause).applyTo(l, e)
	}
	found := !known && !u.Witnessed
	if c.State.Alive() {
		found = !known && !l.runtimeView(u.Runtime).Up
	}
	l.step(e, &input{kind: observed, container: c, found: found})
}

// recall takes up what is remembered of the identity whose first run this container
// has: compose makes the new container before it removes the old one.
func (l *loop) recall(e *entry) {
	m, ok := l.memories[e.identity]
	if !ok || e.spec == nil {
		return
	}
	delete(l.memories, e.identity)
	if time.Since(m.since) > forgetAfter {
		return
	}
	e.state.Restarts = m.restarts
	if m.made == makeOf(e.container) {
		e.state.Backoff = m.backoff
	}
}

// newEntry resolves a container's spec; nil when it is to be left alone.
func (l *loop) newEntry(c *runtime.Container) *entry {
	e := &entry{index: -1}
	if !l.resolve(e, c) {
		return nil
	}
	l.entries[c.ID] = e
	e.state.ShuttingDown = l.quitting
	v := l.runtimeView(c.Runtime)
	e.state.Lost = v.Synced && !v.Up
	if e.spec == nil {
		l.record(c.Name, EventInvalid, "%s", e.invalid)
	}
	return e
}

// resolve fills in what follows from a container's name and labels, and says
// whether it is supervised at all.
func (l *loop) resolve(e *entry, c *runtime.Container) bool {
	spec, err := l.config.Resolve(c.Name, c.Labels)
	if spec == nil && err == nil {
		return false
	}
	e.container, e.spec, e.invalid, e.service = c, spec, "", ""
	if err != nil {
		e.spec, e.invalid = nil, err.Error()
	} else {
		e.service = spec.Publish.Service
	}
	e.group, e.identity = group(c), identity(c)
	return true
}

// setContainer replaces what is known of a container by something newer. Its
// probes are built anew when they have to go elsewhere.
func (l *loop) setContainer(e *entry, c *runtime.Container) {
	old := e.container
	e.container = c
	if c.Name != old.Name && !l.resolve(e, c) {
		return
	}
	if c.Address != old.Address {
		e.renew(l.asking)
	}
}

// remove forgets a container that is gone, but not what belongs to its identity.
func (l *loop) remove(e *entry) {
	now := time.Now()
	l.queue.set(e, time.Time{})
	e.end()
	delete(l.entries, e.container.ID)
	l.board.remove(&e.slot)
	if e.spec == nil || e.state.Run == (runtime.Run{}) { // what is remembered is of another
		return
	}
	l.memories[e.identity] = memory{
		made: makeOf(e.container), backoff: e.state.Backoff, restarts: e.state.Restarts, since: now,
	}
	if len(l.memories) >= l.pruneAt {
		maps.DeleteFunc(l.memories, func(_ string, m memory) bool { return now.Sub(m.since) > forgetAfter })
		l.pruneAt = max(pruneMemories, 2*len(l.memories))
	}
}

// lost takes in that a runtime cannot be heard: what it runs is not touched until
// it can.
func (l *loop) lost(u update) {
	v := l.runtimeView(u.Runtime)
	v.Up, v.Err = false, u.Err
	l.board.runtimes.Store(u.Runtime, v)
	l.record("", EventRuntimeLost, "Runtime %s cannot be heard, nothing there is restarted until it can: %v", u.Runtime, u.Err)
	l.stepAll(u.Runtime, runtimeLost)
}

// synced takes in that all that a runtime runs is known again.
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
		l.record("", EventRuntimeBack, "Runtime %s can be heard again", u.Runtime)
	}
	if back {
		l.stepAll(u.Runtime, runtimeBack)
	}
}

func (l *loop) stepAll(name string, kind inputKind) {
	for _, e := range l.entries {
		if e.container.Runtime == name {
			l.step(e, &input{kind: kind})
		}
	}
}

func (l *loop) record(container, reason, format string, args ...any) {
	l.config.Journal.Record(Event{
		Time: time.Now(), Container: container, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}
