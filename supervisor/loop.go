package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// loop is the state of Run. Only the goroutine of Run touches it.
type loop struct {
	*Supervisor
	entries      map[string]*entry      // by container ID
	notSeenYet   map[string]core.Memory // by container ID: not seen again yet by this daemon
	unsupervised map[string]bool        // by container ID: in past, but dropped by a reload
	removed      map[string]core.Memory // by identity: of containers that are gone
	engines      map[string]engineLife  // by runtime: of the present connection
	pruneAt      int                    // size of memories at which old ones are dropped
	queue        queue
	guard        *guard
	resolver     Resolver
	reloaded     time.Time                     // when it was replaced
	dropped      map[string]*runtime.Container // by that, until their watcher says so
	dialing      map[string]bool               // by runtime: it is being asked whether it takes connections
	effects      []core.Effect                 // reused
	recheckAt    time.Time                     // when those who wait are looked at again
	shuttingDown bool

	wg     *sync.WaitGroup
	asking context.Context // ends the probes that are under way
}

// entry is one supervised container.
type entry struct {
	slot            slot
	container       *runtime.Container
	spec            *core.Spec // nil when invalid
	invalid         string
	identity        string
	group           string
	service         string
	state           core.State
	remembered      core.Facts      // as last remembered
	rememberedGates []core.Gate     // too
	durable         <-chan struct{} // closed when they are
	specOutdated    bool            // its spec is, but it is in the middle of a restart
	endedWithEngine bool            // with its engine, it seems, or before
	firstSeen       bool            // nobody has known it before the present connection
	unreported      bool            // its watcher reports it no more, as nobody wants it
	missedEvents    bool            // what happened since a reload dropped it nobody has watched
	down            core.Outage     // zero: none, or over
	granted         []time.Time     // restarts that probes asked for, lately; never changed in place

	probes        [core.NumProbes]prober.Probe // for the present run and address; nil: not built yet
	asking        context.Context              // ends these probes
	endAsking     context.CancelFunc
	probesVersion int // changes with them

	run     context.Context // ends the hooks of the present run
	endRun  context.CancelFunc
	endHook context.CancelFunc // the newest of these

	wake  time.Time
	index int // in the queue; negative: not there
}

// Run supervises until ctx ends; it then finishes the restarts that are under way,
// starts what waits for its start, and returns nil. It must be called once.
func (s *Supervisor) Run(ctx context.Context) error {
	asking, stopAsking := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(s.ended)
	defer stopAsking()
	l := newLoop(s, &wg, asking)
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

func newLoop(s *Supervisor, wg *sync.WaitGroup, asking context.Context) *loop {
	l := &loop{
		Supervisor: s, wg: wg, asking: asking,
		entries: make(map[string]*entry), pruneAt: pruneMemories, guard: newGuard(s.config.Guard),
		resolver: s.config.Resolve, dropped: make(map[string]*runtime.Container), dialing: make(map[string]bool),
	}
	l.loadMemories(s.config.Memories)
	return l
}

// stepDue steps every entry whose time has come. Should one be due again at once, which
// none ought to be, the others have their turn first.
func (l *loop) stepDue(now time.Time) {
	for e := l.queue.first(); e != nil && !e.wake.After(now); e = l.queue.first() {
		l.step(e, &core.Input{Kind: core.Tick})
		if e.index >= 0 && !e.wake.After(now) {
			l.queue.set(e, now.Add(time.Millisecond))
		}
	}
}

// recheckEvery is how often those who wait for their group or the budget are looked
// at when nothing happens to them.
const recheckEvery = time.Second

// recheckWaiting lets those go on who need wait no longer, longest first.
func (l *loop) recheckWaiting(now time.Time) {
	if len(l.guard.waiting) == 0 || !l.guard.changed && now.Before(l.recheckAt) {
		return
	}
	l.guard.changed, l.recheckAt = false, now.Add(recheckEvery)
	for _, e := range slices.Clone(l.guard.waiting) {
		if l.guard.wait(e, now) != e.state.Health.Wait {
			l.step(e, &core.Input{Kind: core.Tick})
		}
	}
}

// next returns when the loop has something to do that nobody reports.
func (l *loop) next(now time.Time) time.Time {
	var at time.Time
	if e := l.queue.first(); e != nil {
		at = e.wake
	}
	switch {
	case len(l.guard.waiting) == 0:
	case l.guard.changed:
		at = now
	case at.IsZero() || l.recheckAt.Before(at):
		at = l.recheckAt
	}
	return at
}

// beginShutdown tells every container's state that healthd is to end.
func (l *loop) beginShutdown() {
	l.shuttingDown = true
	for _, e := range l.entries {
		l.step(e, &core.Input{Kind: core.ShutdownBegun})
	}
}

// settled says that nothing is under way that healthd must finish.
func (l *loop) settled() bool {
	for _, e := range l.entries {
		if !e.state.Settled() {
			return false
		}
	}
	return true
}

// step lets the core decide about one container, shows the outcome and carries it
// out.
func (l *loop) step(e *entry, in *core.Input) {
	now := time.Now()
	if e.spec == nil { // nothing to decide about a container whose labels are wrong
		e.state = core.InvalidState(e.container, in.Kind == core.RuntimeLost || e.state.Lost && in.Kind != core.RuntimeBack)
		l.queue.set(e, time.Time{})
		l.show(e)
		return
	}
	run, before := e.state.Run.ID, e.state.Action.Stopping
	if in.MayFailRun() || e.state.Health.Failed != core.NoCause || e.state.Run.Hooks[core.PostStart] == core.HookFailed {
		in.Wait, in.LastUp = l.guard.wait(e, now), l.config.Publisher.LastUp(e.container.ID)
	}
	e.state, l.effects = core.Step(e.spec, e.container, e.state, in, now, l.effects[:0])
	if e.state.Run.ID != run || e.run == nil {
		e.cancelAll()
		e.run, e.endRun = context.WithCancel(l.asking)
		e.resetProbes(l.asking)
	}
	l.show(e)
	l.guard.update(e, before, now)
	l.remember(e)
	for i := range l.effects {
		l.do(e, &l.effects[i], now)
	}
	l.queue.set(e, core.NextTick(&e.state))
	if e.specOutdated && e.state.Settled() {
		l.resolveAgain(e)
	}
	if l.guard.exhausted() {
		l.record("", core.WaitRestartBudget, "Probes have asked for %d restarts in %v, which is all that may be: the others wait",
			l.guard.limit.MaxRestarts, l.guard.limit.Window)
	}
}

// resetProbes lets probes be built anew and ends those that are under way.
func (e *entry) resetProbes(asking context.Context) {
	if e.endAsking != nil {
		e.endAsking()
	}
	e.probesVersion++
	e.asking, e.endAsking = context.WithCancel(asking)
	e.probes = [core.NumProbes]prober.Probe{}
}

// cancelAll ends the probes and hooks that are under way.
func (e *entry) cancelAll() {
	if e.endRun != nil {
		e.endRun()
	}
	if e.endAsking != nil {
		e.endAsking()
	}
}

// show puts the entry's newest view on the board.
func (l *loop) show(e *entry) {
	if l.board.put(&e.slot, &core.View{
		Container: e.container, Spec: e.spec, Invalid: e.invalid,
		Identity: e.identity, Group: e.group, Service: e.service, State: e.state,
	}) {
		l.config.Publisher.Changed()
	}
}

// do carries one effect out.
func (l *loop) do(e *entry, f *core.Effect, now time.Time) {
	switch f.Kind {
	case core.RunProbe:
		l.board.lateness.observe(f.Late)
		l.ask(e, f.Probe)
	case core.StopContainer:
		l.call(e, core.StopCall, f.Grace)
	case core.StartContainer:
		l.call(e, core.StartCall, 0)
	case core.RunHook:
		l.hook(e, f.Hook, f.Grace)
	case core.InspectContainer:
		l.inspect(e)
	case core.DialEngine:
		l.dial(e)
	case core.RecordEvent:
		l.config.Journal.Record(core.Event{Time: now, Container: e.container.Name, Reason: f.Reason, Message: f.Message})
	}
}

// request is a message from a person: to do something for that container, or for all,
// or, when there is nothing to do, a mere sign of life.
type request struct {
	id    string
	do    func(*loop, *entry) error
	all   func(*loop)
	reply chan error // has room
}

func (r request) apply(l *loop) {
	if r.do == nil {
		if r.all != nil {
			r.all(l)
		}
		r.reply <- nil
		return
	}
	e := l.entries[r.id]
	switch {
	case e == nil:
		r.reply <- ErrUnknownContainer
	case l.shuttingDown:
		r.reply <- ErrStopping
	case e.spec == nil:
		r.reply <- fmt.Errorf("what is set for it is wrong: %s", e.invalid)
	default:
		r.reply <- r.do(l, e)
	}
}

// restart begins a restart that a person asked for.
func (l *loop) restart(e *entry) error {
	switch {
	case e.container.AutoRemove:
		return ErrAutoRemove
	case e.state.Lasting.Held:
		return ErrHeld
	case e.state.Lost:
		return ErrRuntimeLost
	}
	l.step(e, &core.Input{Kind: core.RestartRequested})
	return nil
}

// runtimeView returns what the board shows of a runtime, to be changed and put
// back.
func (l *loop) runtimeView(name string) RuntimeView {
	r, _ := l.board.runtimes.Load(name)
	v, _ := r.(RuntimeView)
	v.Name, v.Relists = name, maps.Clone(v.Relists)
	return v
}
