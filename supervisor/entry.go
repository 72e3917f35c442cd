package supervisor

import (
	"context"
	"maps"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// entry is one supervised container.
type entry struct {
	container *runtime.Container
	reached   *runtime.Container // container with the address in the network of its spec
	reported  *runtime.Container // as its watcher reported it last; container may be from a look of healthd's own
	engine    *engineState
	spec      *core.Spec // nil: see invalid
	invalid   string     // what is wrong with its labels
	unjudged  unjudged   // what happened while they were wrong
	identity  string
	was       string // its identity before it was renamed, which no other container has taken; empty: none
	group     string
	groupKey  string // of the guard's group: like group, but of a container alone that of its name's holder
	service   string
	state     *core.State // of its newest View, so that it is kept once; never changed in place
	slot      slot        // its place on the board

	remembered *core.Memory    // what the Store has of it; nil: nothing
	supersedes *core.Memory    // the container before it, until it has that one's in the Store; nil: there is none
	durable    <-chan struct{} // closed when that is on the disk

	// For the guard.
	down    core.Outage // the outage that healthd makes for a failed probe; zero: none
	granted []time.Time // recent restarts for failed probes; never changed in place
	place   place
	heard   hearing

	recorded runtime.Run // the newest run that the Recorder was told of

	specOutdated    bool // the spec has changed in the middle of a restart, which ends by the old one
	isNew           bool // neither a daemon nor the Store knew it before the present connection
	outlived        bool // its run goes on although its engine has restarted
	maybeWithEngine bool // it has ended unseen, with its engine or before it
	unreported      bool // its watcher no longer reports it, because no spec matches it
	superseded      bool // a newer container has what belongs to its identity; see lineage
	missedEvents    bool // a reload once dropped it, so healthd may have missed events

	// The probes of the present run and address. Each is built when it is first needed.
	probes        [core.NumProbes]prober.Probe
	cancelProbes  [core.NumProbes]context.CancelFunc // of those under way
	probesVersion uint64                             // see loop.newProbes
	firstVersion  uint64                             // answers with older ones are of an entry that was dropped
	// namespace is the network of the present run, for its probes and hooks; nil: not needed yet
	namespace *prober.Namespace

	// The hooks of the present run, and the looks before its stop.
	runCtx     context.Context // see runContext
	cancelRun  context.CancelFunc
	cancelHook context.CancelFunc // of the newest hook

	wake   time.Time      // when it is due
	queued int            // place in the queue; 0: not there
	owed   []func(*entry) // what a change of many containers still asks for; see eachLater

	startQueued              int  // place in engineState.startQueue
	unsettled                bool // healthd has a stop or start to finish
	inEngine, inMaybeStopped int  // places in these sets of its engine
}

// newEntry makes the entry of a container that the loop has none for. It returns nil when
// no spec matches the container.
func (l *loop) newEntry(c *runtime.Container) *entry {
	state := core.NewState()
	e := &entry{reported: c, state: &state, firstVersion: l.newProbes()}
	e.probesVersion = e.firstVersion
	spec, err := l.resolver(c.Traits())
	if spec == nil && err == nil {
		return nil
	}
	e.setSpec(c, spec, err)
	known := l.restore(e)
	e.isNew = !known
	e.engine = l.engine(c.Runtime)
	restarted := known && e.spec != nil && e.engine.replay == runtime.ReplayRestart
	l.entries[c.ID] = e
	e.engine.entries.set(e, true)
	l.noteSettled(e, e.state.Settled())
	l.guard.join(e)
	if e.remembered != nil && e.remembered.Identity != e.identity {
		l.renamed(e, e.remembered.Identity)
	}
	// Two kinds of containers are left alone until all of their runtime are known: a new one
	// may replace one that was removed, and one that has ended may have ended long before
	// its engine did.
	v := &e.engine.view
	e.change(func(s *core.State) {
		s.Shutdown.Begun, s.Lost = l.shuttingDown, !v.Up && (v.Synced || e.isNew || restarted)
	})
	if restarted {
		l.step(e, &core.Input{Kind: core.EngineRestarted, Early: true})
	}
	if e.spec == nil {
		l.record(l.board.NameOf(c), core.EventInvalid, "%s", e.invalid)
	}
	return e
}

// setSpec sets the container, what the resolver returned for it, and all that follows.
func (e *entry) setSpec(c *runtime.Container, spec *core.Spec, err error) {
	e.container, e.reached, e.spec, e.invalid, e.service = c, c, spec, "", ""
	if err != nil {
		e.spec, e.invalid = nil, err.Error()
	} else {
		e.service, e.reached = spec.Publish.Service, c.InNetwork(spec.Network)
	}
	e.group, e.identity = core.GroupOf(c), core.IdentityOf(c)
	e.groupKey = e.group
	switch {
	case spec != nil && spec.Group.Name != "":
		e.group, e.groupKey = spec.Group.Name, spec.Group.Name
	case e.group == c.Name:
		e.groupKey = c.Holder()
	}
}

// setContainer takes in a newer inspection. It returns false when the new name or labels, which
// containerd lets others change, have left the container without this entry. A new address or main process resets the probes.
func (l *loop) setContainer(e *entry, c *runtime.Container) bool {
	old, oldReached := e.container, e.reached
	e.container, e.reached = c, c
	if e.spec != nil {
		e.reached = c.InNetwork(e.spec.Network)
	}
	if e.spec == nil {
		e.unjudged.observed(old, c, e.engine.view.Up && e.engine.replay == runtime.ReplayComplete)
	}
	if c.Name != old.Name || c.Image != old.Image || !maps.Equal(c.Labels, old.Labels) {
		l.resolveAgain(e)
	}
	if c.Pid != old.Pid {
		e.closeNamespace()
	}
	if (!reachedAlike(e.reached, oldReached) || c.Pid != old.Pid) && e.spec != nil {
		l.resetProbes(e)
	}
	return l.entries[c.ID] == e
}

// reachedAlike says whether probes go to the same address, or are kept from it for the same reason.
func reachedAlike(a, b *runtime.Container) bool {
	return a.Address == b.Address && a.Unreached() == b.Unreached()
}

// change replaces the state by a changed copy: a View may show it.
func (e *entry) change(f func(*core.State)) {
	s := e.state.Copy()
	f(&s)
	e.state = &s
}

// beginRun ends the probes and hooks of the run before.
func (l *loop) beginRun(e *entry) {
	e.cancelAll()
	l.resetProbes(e)
}

// runContext returns a context that ends with the present run. It is made when it is first needed,
// because most runs need none.
func (l *loop) runContext(e *entry) context.Context {
	if e.runCtx == nil {
		e.runCtx, e.cancelRun = context.WithCancel(l.workCtx)
	}
	return e.runCtx
}

// resetProbes ends the probes under way. The next ones are built anew.
func (l *loop) resetProbes(e *entry) {
	e.endProbes()
	e.probesVersion = l.newProbes()
	e.probes = [core.NumProbes]prober.Probe{}
}

// newProbes returns a number that is greater than those of all probes before, of any entry, so that answers of older
// ones are recognised.
func (l *loop) newProbes() uint64 {
	l.probesMade++
	return l.probesMade
}

// target is the container for its probes and hooks.
func (e *entry) target() prober.Target {
	if e.namespace == nil {
		e.namespace = namespaceOf(e.container)
	}
	return target(e.reached, e.namespace)
}

// closeNamespace gives up the network of a run that has ended. A hook under way keeps its
// connection.
func (e *entry) closeNamespace() {
	if e.namespace != nil {
		e.namespace.Close()
		e.namespace = nil
	}
}

// cancelAll ends the probes and hooks under way.
func (e *entry) cancelAll() {
	e.closeNamespace()
	if e.cancelRun != nil {
		e.cancelRun()
		e.runCtx, e.cancelRun = nil, nil
	}
	e.endProbes()
}

// endProbes ends the probes under way, and closes the connections that probes keep.
func (e *entry) endProbes() {
	for t, cancel := range e.cancelProbes {
		if cancel != nil {
			cancel()
			e.cancelProbes[t] = nil
		}
	}
	for _, p := range e.probes {
		if p != nil {
			p.Close()
		}
	}
}

// remove forgets a container that is gone, but keeps what belongs to its identity.
func (l *loop) remove(e *entry) {
	if reason, message, told := core.EndOfRemoved(e.container, e.state); told && e.spec != nil {
		l.record(l.board.NameOf(e.container), reason, "%s", message)
	}
	l.drop(e)
	l.rememberRemoved(e)
}

// drop ends the supervision of a container.
func (l *loop) drop(e *entry) {
	l.queue.set(e, time.Time{})
	e.cancelAll()
	delete(l.entries, e.container.ID)
	e.engine.entries.set(e, false)
	e.engine.maybeStopped.set(e, false)
	l.noteSettled(e, true)
	l.guard.leave(e)
	e.engine.startQueue.remove(e)
	l.board.remove(&e.slot)
	l.tellChanged(e.container.ID)
}
