package supervisor

import (
	"fmt"
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
	case u.Kind == runtime.Synced:
		l.synced(u)
	case u.Kind == runtime.Connected:
		l.connected(u)
	case u.Kind == runtime.Observed:
		l.observed(u)
	case e != nil:
		u.applyTo(l, e)
	case u.Kind == runtime.Removed && l.dropped[u.ID] != nil:
		delete(l.dropped, u.ID) // its watcher has seen that nobody wants it
	case u.Kind == runtime.Removed:
		l.removedBeforeSeen(u.ID)
	}
	// All that follows was remembered; of a start of the engine that is so only when
	// every container was looked at.
	if !u.SeenUntil.IsZero() && l.engines[u.Runtime].replay != runtime.ReplayRestart {
		l.config.Store.SetSeen(u.Runtime, u.SeenUntil)
	}
}

// applyTo takes in what events told of one container.
func (u update) applyTo(l *loop, e *entry) {
	switch {
	case u.Kind != runtime.Removed:
	case u.Unwanted:
		l.unreported(e)
		return
	default:
		l.remove(e)
		return
	}
	if in := l.cause(e, u); in.Kind != 0 {
		l.step(e, &in)
	}
}

// cause is what an event tells that no inspection does; its kind is 0 when it is none.
func (l *loop) cause(e *entry, u update) core.Input {
	in := core.Input{Time: u.Time, NewestStart: u.Started, Life: l.engines[e.container.Runtime].core()}
	if in.Time.IsZero() {
		in.Time = time.Now()
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

// observed takes a container in, the first time or again.
func (l *loop) observed(u update) {
	c := u.Container
	e, known := l.entries[c.ID]
	switch {
	case !known:
		if e = l.newEntry(c); e == nil {
			if l.dropped[c.ID] != nil {
				l.dropped[c.ID] = c // as it is, should it be wanted again
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
	e.endedWithEngine = e.state.EngineRestarted && e.state.Engine.State.Alive() && !c.State.Alive()
	in := core.Input{Kind: core.Observed, Container: c}
	if !known {
		in.First, in.Unwatched = l.firstSight(e, u)
	}
	l.step(e, &in)
}

// firstSight says whether a container that this daemon has not seen before was there
// before it, and whether nothing tells how it came to be as it is.
func (l *loop) firstSight(e *entry, u update) (first, found bool) {
	c := e.container
	first = !l.runtimeView(u.Runtime).Up || !u.StateFromEvent && c.State.Alive() && c.StartedAt.Before(l.reloaded)
	heard := l.engines[u.Runtime].replay == runtime.ReplayComplete || e.state.Run.Died && !c.State.Alive() && c.Run() == e.state.Run.ID
	if remembered := e.remembered.ID != ""; remembered && !e.missedEvents && heard {
		return first, false // it is as if healthd had been there
	}
	if c.State.Alive() {
		return first, first
	}
	return first, !u.StateFromEvent
}

// newEntry resolves a container's spec; nil when it is to be left alone.
func (l *loop) newEntry(c *runtime.Container) *entry {
	e := &entry{index: -1}
	if !l.resolve(e, c) {
		return nil
	}
	known := l.restore(e)
	e.firstSeen = !known
	restarted := known && e.spec != nil && l.engines[c.Runtime].replay == runtime.ReplayRestart
	l.entries[c.ID] = e
	l.guard.join(e)
	e.state.Shutdown.Begun = l.shuttingDown
	v := l.runtimeView(c.Runtime)
	// Who nobody knows may have come in place of somebody, and who has ended may have done
	// so long before the engine did: that shows when all are there.
	e.state.Lost = !v.Up && (v.Synced || e.firstSeen || restarted)
	if restarted {
		l.step(e, &core.Input{Kind: core.EngineRestarted, Early: true})
	}
	if e.spec == nil {
		l.record(c.Name, core.EventInvalid, "%s", e.invalid)
	}
	return e
}

// resolve fills in what follows from a container's name and labels, and says
// whether it is supervised at all.
func (l *loop) resolve(e *entry, c *runtime.Container) bool {
	spec, err := l.resolver(c.Name, c.Labels)
	if spec == nil && err == nil {
		return false
	}
	l.resolved(e, c, spec, err)
	return true
}

func (l *loop) resolved(e *entry, c *runtime.Container, spec *core.Spec, err error) {
	e.container, e.spec, e.invalid, e.service = c, spec, "", ""
	if err != nil {
		e.spec, e.invalid = nil, err.Error()
	} else {
		e.service = spec.Publish.Service
	}
	e.group, e.identity = core.GroupOf(c), core.IdentityOf(c)
	if spec != nil && spec.Group.Name != "" {
		e.group = spec.Group.Name
	}
}

// setContainer replaces what is known of a container by something newer, and says
// whether the entry still is the container's. Its probes are built anew when they have
// to go elsewhere.
func (l *loop) setContainer(e *entry, c *runtime.Container) bool {
	old := e.container
	e.container = c
	if c.Name != old.Name {
		l.resolveAgain(e)
	}
	if c.Address != old.Address && e.spec != nil {
		e.resetProbes(l.asking)
	}
	return l.entries[c.ID] == e
}

// remove forgets a container that is gone, but not what belongs to its identity.
func (l *loop) remove(e *entry) {
	l.drop(e)
	l.rememberRemoved(e)
}

// drop leaves a container alone from now on.
func (l *loop) drop(e *entry) {
	l.queue.set(e, time.Time{})
	e.cancelAll()
	delete(l.entries, e.container.ID)
	l.guard.leave(e)
	l.board.remove(&e.slot)
	l.config.Publisher.Changed()
}

// lost takes in that a runtime cannot be heard: what it runs is not touched until
// it can.
func (l *loop) lost(u update) {
	v := l.runtimeView(u.Runtime)
	v.Up, v.Err = false, u.Err
	l.board.runtimes.Store(u.Runtime, v)
	l.record("", core.EventRuntimeLost, "Runtime %s cannot be heard, nothing there is restarted until it can: %v", u.Runtime, u.Err)
	l.stepAll(u.Runtime, core.RuntimeLost)
}

// connected takes in what the engine can still tell of the time when it was not heard.
func (l *loop) connected(u update) {
	life := engineLife{replay: u.Replay, killedUntil: u.KilledByEngineBefore}
	if !l.runtimeView(u.Runtime).Synced && l.config.Rebooted {
		life.replay = runtime.ReplayRestart
	}
	if _, ok := l.engines[u.Runtime]; ok && life.replay == runtime.ReplayComplete {
		return // the same life; of a connection that was lost before all was known it knows no more
	}
	l.engines[u.Runtime] = life
	if life.replay != runtime.ReplayRestart {
		return
	}
	for _, e := range l.entriesOf(u.Runtime) {
		l.step(e, &core.Input{Kind: core.EngineRestarted, Early: true})
	}
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
		l.record("", core.EventRuntimeBack, "Runtime %s can be heard again", u.Runtime)
	}
	if back {
		l.settleNotSeen(u)
		l.findEndedLongBefore(u.Runtime)
		for _, e := range l.entriesOf(u.Runtime) {
			e.firstSeen = false
		}
		for _, e := range l.entriesOf(u.Runtime) {
			l.step(e, &core.Input{Kind: core.RuntimeBack, NotInspected: slices.Contains(u.NotInspected, e.container.ID)})
		}
	}
	life := l.engines[u.Runtime]
	life.replay = runtime.ReplayComplete // from now on
	l.engines[u.Runtime] = life
	if back {
		l.config.Publisher.Changed() // who is not there by now is gone
	}
}

func (l *loop) stepAll(name string, kind core.InputKind) {
	for _, e := range l.entriesOf(name) {
		l.step(e, &core.Input{Kind: kind})
	}
}

// entriesOf returns what a runtime runs, always in the same order.
func (l *loop) entriesOf(name string) []*entry {
	var all []*entry
	for _, id := range slices.Sorted(maps.Keys(l.entries)) {
		if e := l.entries[id]; e.container.Runtime == name {
			all = append(all, e)
		}
	}
	return all
}

func (l *loop) record(container, reason, format string, args ...any) {
	l.config.Journal.Record(core.Event{
		Time: time.Now(), Container: container, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}
