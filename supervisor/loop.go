package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// loop is the state of Run. Only the goroutine of Run touches it.
type loop struct {
	*Supervisor
	resolver     Resolver
	entries      map[string]*entry // by container ID
	queue        queue
	guard        *guard
	room         core.Room // of every step
	recheckAt    time.Time // when to look again at the containers that wait for the guard
	backlog      []func()  // what changes of many containers still ask for
	unsettled    int       // entries with a stop or start that healthd must finish
	shuttingDown bool
	crashes      crashStarts
	probesMade   uint64 // see newProbes

	// What outlives a daemon and a re-creation (keep.go).
	notSeenYet   map[string]*core.Memory // by container ID: this daemon has not seen the container yet
	unsupervised map[string]bool         // those of notSeenYet that a reload dropped
	watchedUntil time.Time               // when the last daemon wrote its newest memory; zero: not known
	removed      map[string]*core.Memory // by container ID: it was removed
	lineages     map[lineageKey]lineage
	pruneAt      int                  // size of removed at which old ones are dropped
	seen         map[string]time.Time // by runtime: what to pass to Store.SetSeen after the backlog

	engines map[string]*engineState // by runtime

	// Reloads (reload.go).
	reloadedAt time.Time                     // zero: never
	dropped    map[string]*runtime.Container // by ID: a reload dropped it, its watcher still reports it

	wg      *sync.WaitGroup // all goroutines of the loop
	workCtx context.Context // ends probes and hooks
	callCtx context.Context // ends calls to engines
}

// Run supervises until ctx ends. It then finishes the restarts that are under way and starts the
// containers that wait for their start, as far as Config.Shutdown allows, and returns nil. Call it
// once.
func (s *Supervisor) Run(ctx context.Context) error {
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(s.ended)
	defer stopWork()
	callCtx, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCalls()
	l := newLoop(s, &wg, workCtx, callCtx)
	var tooLate <-chan time.Time
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.stepDue(now)
		l.recheckWaiting(now)
		l.workOff()
		if l.shuttingDown && l.unsettled == 0 && len(l.backlog) == 0 {
			return nil
		}
		if at := l.next(now); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Nanosecond))
		}
		select {
		case m := <-s.inbox:
			l.handle(m)
		case m := <-s.answers:
			l.handle(m)
		case <-timer.C:
		case <-done:
			done = nil
			if s.config.Shutdown > 0 {
				tooLate = time.After(s.config.Shutdown)
			}
			l.beginShutdown()
		case <-tooLate:
			l.record("", core.EventShutdownIncomplete, "healthd shuts down: after %v it leaves %d stops and starts to the next daemon", s.config.Shutdown, l.unsettled)
			return nil
		}
		l.handleWaiting()
	}
}

// handleWaiting handles a slice of the messages that wait.
func (l *loop) handleWaiting() {
	for s := l.newSlice(); s.next(); {
		select {
		case m := <-l.inbox:
			l.handle(m)
		case m := <-l.answers:
			l.handle(m)
		default:
			return
		}
	}
}

// handle handles a message, and the first slice of what it puts into the backlog: that is
// all of it, unless there are many containers.
func (l *loop) handle(m message) {
	before := len(l.backlog)
	m.apply(l)
	if len(l.backlog) > before {
		l.workOff()
	}
}

func newLoop(s *Supervisor, wg *sync.WaitGroup, workCtx, callCtx context.Context) *loop {
	l := &loop{
		Supervisor: s, wg: wg, workCtx: workCtx, callCtx: callCtx,
		entries: make(map[string]*entry), queue: newQueue(), pruneAt: pruneMemories, guard: newGuard(s.config.Guard, s.board, s.config.Places),
		resolver: s.config.Resolve, dropped: make(map[string]*runtime.Container), engines: make(map[string]*engineState),
	}
	l.loadMemories(s.config.Memories)
	l.config.Memories = nil // they change hands
	return l
}

// stepDue steps a slice of the entries that are due. An entry that were due again at once,
// which is a defect, must not starve the others: it waits a millisecond.
func (l *loop) stepDue(now time.Time) {
	s := l.newSlice()
	for e := l.queue.first(); e != nil && !e.wake.After(now) && s.next(); e = l.queue.first() {
		l.step(e, &core.Input{Kind: core.Tick})
		if l.queue.has(e) && !e.wake.After(now) {
			l.queue.set(e, now.Add(time.Millisecond))
		}
	}
}

// next returns when the loop must act without a message; zero means never.
func (l *loop) next(now time.Time) time.Time {
	var at time.Time
	if e := l.queue.first(); e != nil {
		at = e.wake
	}
	switch {
	case len(l.backlog) > 0:
		at = now
	case l.guard.waiting == 0:
	case l.guard.changed():
		at = now
	case at.IsZero() || l.recheckAt.Before(at):
		at = l.recheckAt
	}
	if e := l.guard.placed.first(); e != nil && (at.IsZero() || e.outageEnd().Before(at)) {
		at = e.outageEnd()
	}
	return at
}

func (l *loop) beginShutdown() {
	l.shuttingDown = true
	var until time.Time
	if d := l.config.Shutdown; d > 0 {
		until = time.Now().Add(d)
	}
	l.eachLater(l.allEntries(), func(e *entry) { l.step(e, &core.Input{Kind: core.ShutdownBegun, Time: until}) })
}

// noteSettled counts the entries with a stop or start that healthd must finish.
func (l *loop) noteSettled(e *entry, settled bool) {
	if settled != e.unsettled {
		return
	}
	if e.unsettled = !settled; e.unsettled {
		l.unsettled++
	} else {
		l.unsettled--
	}
}

// step has the core decide about one container, publishes the new state and then
// carries the effects out: readiness is withdrawn before a stop. It does nothing for an entry that was dropped, which
// the step before may have done.
func (l *loop) step(e *entry, in *core.Input) {
	if !l.catchUp(e) {
		return
	}
	if e.spec == nil {
		l.stepInvalid(e, in)
		return
	}
	now := time.Now()
	before, run, stopping := e.state, e.state.Run.ID, e.state.Action.Stopping
	if core.NeedsGuard(e.state, in) {
		in.Wait, in.LastUp = l.guard.wait(e, now), l.config.Publisher.LastUp(e.container.ID)
	}
	in.Crowded, in.StartsFull = l.crashes.crowded(now), e.engine.starting >= core.MaxStarts
	state, effects := core.Step(e.spec, e.container, e.state, in, now, &l.room)
	if state.Run.ID != run {
		l.beginRun(e)
	}
	l.show(e, state)
	l.noteSettled(e, e.state.Settled())
	e.engine.maybeStopped.set(e, e.state.Ending.MaybeEngine)
	l.guard.update(e, stopping, now)
	l.remember(e)
	l.handOver(e)
	for i := range effects {
		l.carryOut(e, &effects[i], now)
	}
	l.recordCrash(e, before)
	l.queue.set(e, turnOf(core.NextTick(e.state), now))
	if e.specOutdated && e.state.Settled() {
		l.resolveAgain(e)
	}
	if text := l.guard.host.news(l.guard.budget.limit.HostSuspect); text != "" {
		l.record("", core.WaitHostSuspect, "%s", text)
	}
	if l.guard.budget.newlyExhausted() {
		limit := l.guard.budget.limit
		l.record("", core.WaitRestartBudget, "healthd began %d restarts for failed probes within %v, as many as [guard] allows: further ones wait",
			limit.MaxRestarts, limit.Window)
	}
}

// show makes state the entry's, and puts its newest view on the board.
func (l *loop) show(e *entry, state core.State) {
	if m := e.remembered; m != nil && state.Kept != m.Kept && *state.Kept == *m.Kept {
		state.Kept = m.Kept // both stay: once is enough
	}
	v := &core.View{
		Container: e.reached, Spec: e.spec, Invalid: e.invalid,
		Identity: e.identity, Group: e.group, Service: e.service, State: state,
		CannotEnter: l.config.CannotEnter,
	}
	e.state = &v.State
	if state.Request.Queued {
		e.engine.startQueue.put(e)
	} else {
		e.engine.startQueue.remove(e)
	}
	e.slot.timeline.note(e.slot.view.Load(), v, time.Since(l.board.began))
	if l.board.put(&e.slot, v) {
		l.tellChanged(v.Container.ID)
	}
}

// record adds an event to the history; container is empty when it concerns the host or a
// whole runtime.
func (l *loop) record(container, reason, format string, args ...any) {
	l.config.Journal.Record(core.Event{
		Time: time.Now(), Container: container, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}
