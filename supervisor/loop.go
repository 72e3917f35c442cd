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
	effects      []core.Effect // buffer that every step uses again
	recheckAt    time.Time     // when to look again at the containers that wait for the guard
	shuttingDown bool

	// What outlives a daemon and a re-creation (keep.go).
	notSeenYet   map[string]core.Memory // by container ID: this daemon has not seen the container yet
	unsupervised map[string]bool        // those of notSeenYet that a reload dropped
	watchedUntil time.Time              // when the last daemon wrote its newest memory; zero: not known
	removed      map[string]core.Memory // by identity: its container was removed
	pruneAt      int                    // size of removed at which old ones are dropped

	// What is known of engines (engines.go).
	engines map[string]engineLife // by runtime
	dialing map[string]bool       // runtimes that a goroutine dials now

	// Reloads (reload.go).
	reloadedAt time.Time                     // zero: never
	dropped    map[string]*runtime.Container // by ID: a reload dropped it, its watcher still reports it

	wg      *sync.WaitGroup // all goroutines of the loop
	workCtx context.Context // ends probes and hooks
}

// Run supervises until ctx ends. It then finishes the restarts that are under way,
// starts the containers that wait for their start, and returns nil. Call it once.
func (s *Supervisor) Run(ctx context.Context) error {
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(s.ended)
	defer stopWork()
	l := newLoop(s, &wg, workCtx)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.stepDue(now)
		l.recheckWaiting(now)
		if l.shuttingDown && l.settled() {
			return nil
		}
		if at := l.next(now); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Nanosecond))
		}
		select {
		case m := <-s.inbox:
			m.apply(l)
		case <-timer.C:
		case <-done:
			done = nil
			l.beginShutdown()
		}
	}
}

func newLoop(s *Supervisor, wg *sync.WaitGroup, workCtx context.Context) *loop {
	l := &loop{
		Supervisor: s, wg: wg, workCtx: workCtx,
		entries: make(map[string]*entry), queue: newQueue(), pruneAt: pruneMemories, guard: newGuard(s.config.Guard),
		resolver: s.config.Resolve, dropped: make(map[string]*runtime.Container), dialing: make(map[string]bool),
	}
	l.loadMemories(s.config.Memories)
	return l
}

// stepDue steps every entry that is due. An entry that were due again at once, which is
// a defect, must not starve the others: it waits a millisecond.
func (l *loop) stepDue(now time.Time) {
	for e := l.queue.first(); e != nil && !e.wake.After(now); e = l.queue.first() {
		l.step(e, &core.Input{Kind: core.Tick})
		if l.queue.has(e) && !e.wake.After(now) {
			l.queue.set(e, now.Add(time.Millisecond))
		}
	}
}

// recheckEvery is how often the loop looks at the first of the containers that wait for
// their group or the budget when no message concerns them. showEvery is the time between
// two turns in which it looks at some of the others.
const (
	recheckEvery = time.Second
	showEvery    = 10 * time.Millisecond
)

// recheckWaiting lets the containers go on that need not wait any more, longest wait
// first.
func (l *loop) recheckWaiting(now time.Time) {
	due := !now.Before(l.recheckAt)
	if l.guard.waiting == 0 || !due && !l.guard.changed() {
		return
	}
	if due && l.guard.budget.shown == 0 {
		l.guard.recheckAll()
	}
	for _, m := range l.guard.toRecheck() {
		l.recheckGroup(m, now)
	}
	l.recheckBudget(now)
	if !due {
		return
	}
	for _, e := range l.guard.budget.toShow() {
		l.showWait(e, now)
	}
	l.recheckAt = now.Add(recheckEvery)
	if l.guard.budget.shown > 0 {
		l.recheckAt = now.Add(showEvery)
	}
}

func (l *loop) recheckGroup(m *group, now time.Time) {
	for e := m.first(); e != nil && !m.blocks(e, now); {
		l.step(e, &core.Input{Kind: core.Tick})
		next := m.first()
		if next == e { // it may go, but something else holds it
			break
		}
		e = next
	}
	var first []*entry
	for at := m.waiting.Front(); at != nil && len(first) < shownWaits; at = at.Next() {
		first = append(first, at.Value.(*entry))
	}
	for _, e := range first {
		l.showWait(e, now)
	}
}

func (l *loop) recheckBudget(now time.Time) {
	b := &l.guard.budget
	b.changed = false
	for e := b.waiting.first(); e != nil && b.free(now) > 0; {
		l.step(e, &core.Input{Kind: core.Tick})
		next := b.waiting.first()
		if next == e {
			break
		}
		e = next
	}
}

// showWait has the view of a waiting container say what it waits for now.
func (l *loop) showWait(e *entry, now time.Time) {
	if e.place.began > 0 && l.guard.wait(e, now) != e.state.Health.Wait {
		l.step(e, &core.Input{Kind: core.Tick})
	}
}

// next returns when the loop must act without a message; zero means never.
func (l *loop) next(now time.Time) time.Time {
	var at time.Time
	if e := l.queue.first(); e != nil {
		at = e.wake
	}
	switch {
	case l.guard.waiting == 0:
	case l.guard.changed():
		at = now
	case at.IsZero() || l.recheckAt.Before(at):
		at = l.recheckAt
	}
	return at
}

func (l *loop) beginShutdown() {
	l.shuttingDown = true
	for _, e := range l.entries {
		l.step(e, &core.Input{Kind: core.ShutdownBegun})
	}
}

// settled says whether no container has a stop or start that healthd must finish.
func (l *loop) settled() bool {
	for _, e := range l.entries {
		if !e.state.Settled() {
			return false
		}
	}
	return true
}

// step has the core decide about one container, publishes the new state and then
// carries the effects out: readiness is withdrawn before a stop.
func (l *loop) step(e *entry, in *core.Input) {
	if e.spec == nil {
		l.stepInvalid(e, in)
		return
	}
	now := time.Now()
	run, stopping := e.state.Run.ID, e.state.Action.Stopping
	if core.NeedsGuard(&e.state, in) {
		in.Wait, in.LastUp = l.wait(e, now), l.config.Publisher.LastUp(e.container.ID)
	}
	e.state, l.effects = core.Step(e.spec, e.container, &e.state, in, now, l.effects[:0])
	if e.state.Run.ID != run || e.runCtx == nil {
		e.beginRun(l.workCtx)
	}
	l.show(e)
	l.guard.update(e, stopping, now)
	l.remember(e)
	for i := range l.effects {
		l.carryOut(e, &l.effects[i], now)
	}
	l.queue.set(e, core.NextTick(&e.state))
	if e.specOutdated && e.state.Settled() {
		l.resolveAgain(e)
	}
	if l.guard.budget.newlyExhausted() {
		limit := l.guard.budget.limit
		l.record("", core.WaitRestartBudget, "healthd began %d restarts for failed probes within %v, as many as [guard] allows: further ones wait",
			limit.MaxRestarts, limit.Window)
	}
}

// wait returns what a restart of e for a failed probe has to wait for. Before the first list of
// its engine, members of its group may be down that healthd has not seen yet.
func (l *loop) wait(e *entry, now time.Time) core.Wait {
	if v := l.runtimeView(e.container.Runtime); !v.Up && !v.Synced {
		return core.Wait{Reason: core.WaitGroupLimit, On: "the first list of its engine's containers"}
	}
	return l.guard.wait(e, now)
}

// stepInvalid shows a container with invalid labels. The core decides nothing about it.
func (l *loop) stepInvalid(e *entry, in *core.Input) {
	e.state = core.InvalidState(e.container, in.Kind == core.RuntimeLost || e.state.Lost && in.Kind != core.RuntimeBack)
	l.queue.set(e, time.Time{})
	l.show(e)
}

// show puts the entry's newest view on the board.
func (l *loop) show(e *entry) {
	if l.board.put(&e.slot, &core.View{
		Container: e.container, Spec: e.spec, Invalid: e.invalid,
		Identity: e.identity, Group: e.group, Service: e.service, State: e.state,
	}) {
		l.tellChanged()
	}
}

// record adds an event to the history; container is empty when it concerns the host or a
// whole runtime.
func (l *loop) record(container, reason, format string, args ...any) {
	l.config.Journal.Record(core.Event{
		Time: time.Now(), Container: container, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}
