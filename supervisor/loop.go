package supervisor

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// loop is the state of Run. Only the goroutine of Run touches it.
type loop struct {
	*Supervisor
	entries  map[string]*entry // by container ID
	memories map[string]memory // by identity
	pruneAt  int               // size of memories at which old ones are dropped
	queue    queue
	fx       []effect // reused
	quitting bool

	wg     *sync.WaitGroup
	asking context.Context // ends the probes that are under way
}

// entry is one supervised container.
type entry struct {
	slot      slot
	container *runtime.Container
	spec      *Spec // nil when invalid
	invalid   string
	identity  string
	group     string
	service   string
	state     State

	probes [NumProbes]prober.Probe // for the present run and address; nil: not built yet
	run    context.Context         // ends these probes
	endRun context.CancelFunc
	epoch  int // changes with them

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
	l := &loop{
		Supervisor: s, wg: &wg, asking: asking,
		entries: make(map[string]*entry), memories: make(map[string]memory), pruneAt: pruneMemories,
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := ctx.Done()
	for {
		now := time.Now()
		l.fire(now)
		if l.quitting && l.settled() {
			return nil
		}
		if e := l.queue.first(); e != nil {
			timer.Reset(max(e.wake.Sub(now), time.Nanosecond))
		}
		select {
		case m := <-s.inbox:
			m.apply(l)
		case <-timer.C:
		case <-done:
			done = nil
			l.shutDown()
		}
	}
}

// fire steps every entry whose time has come.
func (l *loop) fire(now time.Time) {
	for e := l.queue.first(); e != nil && !e.wake.After(now); e = l.queue.first() {
		l.step(e, &input{kind: tick})
	}
}

// shutDown tells every container's state that healthd is to end.
func (l *loop) shutDown() {
	l.quitting = true
	for _, e := range l.entries {
		l.step(e, &input{kind: shutdown})
	}
}

// settled says that nothing is under way that healthd must finish.
func (l *loop) settled() bool {
	for _, e := range l.entries {
		if !e.state.settled() {
			return false
		}
	}
	return true
}

// step lets the core decide about one container, shows the outcome and carries it
// out.
func (l *loop) step(e *entry, in *input) {
	now := time.Now()
	if e.spec == nil { // nothing to decide about a container whose labels are wrong
		c, lost := e.container, in.kind == runtimeLost || e.state.Lost && in.kind != runtimeBack
		e.state = State{Engine: c.State, Run: c.Run(), StartedAt: c.StartedAt, Lost: lost}
		if !c.State.Alive() {
			e.state.Exit = exitOf(c)
		}
		l.queue.set(e, time.Time{})
		l.show(e)
		return
	}
	run := e.state.Run
	e.state, l.fx = step(e.spec, e.container, e.state, in, now, l.fx[:0])
	if e.state.Run != run || e.run == nil {
		e.renew(l.asking)
	}
	l.show(e)
	for i := range l.fx {
		l.do(e, &l.fx[i], now)
	}
	l.queue.set(e, wake(&e.state))
}

// renew lets probes be built anew and ends those that are under way.
func (e *entry) renew(asking context.Context) {
	if e.endRun != nil {
		e.endRun()
	}
	e.epoch++
	e.run, e.endRun = context.WithCancel(asking)
	e.probes = [NumProbes]prober.Probe{}
}

// show puts the entry's newest view on the board.
func (l *loop) show(e *entry) {
	l.board.put(&e.slot, &View{
		Container: e.container, Spec: e.spec, Invalid: e.invalid,
		Identity: e.identity, Group: e.group, Service: e.service, State: e.state,
	})
}

// do carries one effect out.
func (l *loop) do(e *entry, f *effect, now time.Time) {
	switch f.do {
	case doAsk:
		l.board.lateness.observe(f.late)
		l.ask(e, f.probe)
	case doStop:
		l.call(e, StopCall, f.grace)
	case doStart:
		l.call(e, StartCall, 0)
	case doRecord:
		l.config.Journal.Record(Event{Time: now, Container: e.container.Name, Reason: f.reason, Message: f.message})
	}
}

// ask runs one probe and sends its answer to the loop.
func (l *loop) ask(e *entry, t ProbeType) {
	p, spec := e.probes[t], e.spec.Probes[t]
	if p == nil {
		var err error
		if p, err = l.config.Prober.Probe(spec.Handler, target(e.container)); err != nil {
			p = unaskable{err}
		}
		e.probes[t] = p
	}
	ctx, a := e.run, answer{id: e.container.ID, run: e.state.Run, epoch: e.epoch, probe: t}
	l.wg.Go(func() {
		a.result = p.Ask(ctx, spec.Timeout)
		_ = l.send(l.asking, &a) // fails when the loop has ended
	})
}

// unaskable is a probe that could not be built.
type unaskable struct{ err error }

func (u unaskable) Ask(context.Context, time.Duration) prober.Result {
	return prober.Result{Cause: prober.NotAsked, Output: u.err.Error()}
}

// call makes one call to the engine and sends its end to the loop, with a look at
// what became of the container: the call's own word is not the truth. It is not
// cut short when healthd ends; the engine's client has deadlines.
func (l *loop) call(e *entry, kind Call, grace time.Duration) {
	engine, known := l.config.Runtimes[e.container.Runtime]
	if !known {
		engine = noEngine(e.container.Runtime)
	}
	ctx := context.WithoutCancel(l.asking)
	r := returned{id: e.container.ID, call: kind}
	l.wg.Go(func() {
		if kind == StopCall {
			r.err = engine.Stop(ctx, r.id, grace)
		} else {
			r.err = engine.Start(ctx, r.id)
		}
		c, err := engine.Inspect(ctx, r.id)
		r.container = c
		if err != nil && r.err == nil {
			r.err = fmt.Errorf("cannot see what became of it: %w", err)
		}
		_ = l.send(ctx, &r) // fails when the loop has ended
	})
}

// noEngine stands for a runtime that nobody has configured.
type noEngine string

func (n noEngine) Stop(context.Context, string, time.Duration) error { return n }
func (n noEngine) Start(context.Context, string) error               { return n }
func (n noEngine) Inspect(context.Context, string) (*runtime.Container, error) {
	return nil, n
}
func (n noEngine) Error() string { return "there is no runtime " + string(n) }

// answer is the message that a probe came back.
type answer struct {
	id     string
	run    runtime.Run
	epoch  int
	probe  ProbeType
	result prober.Result
}

func (a *answer) apply(l *loop) {
	e := l.entries[a.id]
	if e == nil || e.state.Run != a.run {
		return // of an earlier run
	}
	if e.epoch != a.epoch {
		a.result = prober.Result{Cause: prober.Pending, Output: "the container's address has changed"}
	}
	l.step(e, &input{kind: answered, probe: a.probe, result: a.result})
}

// returned is the message that a call to an engine came back.
type returned struct {
	id        string
	call      Call
	container *runtime.Container
	err       error
}

func (r *returned) apply(l *loop) {
	e := l.entries[r.id]
	if e == nil {
		return // removed meanwhile
	}
	if r.container != nil && e.state.stale(r.container) {
		r.container = nil
	}
	if r.container != nil {
		l.setContainer(e, r.container)
	}
	l.step(e, &input{kind: called, call: r.call, container: r.container, err: r.err})
}

// request is a message from a person: a restart of that container ID, or, when it
// is empty, a mere sign of life.
type request struct {
	restart string
	reply   chan error // has room
}

func (r request) apply(l *loop) {
	if r.restart == "" {
		r.reply <- nil
		return
	}
	e := l.entries[r.restart]
	switch {
	case e == nil:
		r.reply <- ErrUnknownContainer
	case l.quitting:
		r.reply <- ErrStopping
	case e.spec == nil:
		r.reply <- fmt.Errorf("its labels are invalid: %s", e.invalid)
	case e.container.AutoRemove:
		r.reply <- ErrAutoRemove
	default:
		l.step(e, &input{kind: restartAsked})
		r.reply <- nil
	}
}

// runtimeView returns what the board shows of a runtime, to be changed and put
// back.
func (l *loop) runtimeView(name string) RuntimeView {
	r, _ := l.board.runtimes.Load(name)
	v, _ := r.(RuntimeView)
	v.Name, v.Relists = name, maps.Clone(v.Relists)
	return v
}
