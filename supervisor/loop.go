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

	probes    [NumProbes]prober.Probe // for the present run and address; nil: not built yet
	asking    context.Context         // ends these probes
	endAsking context.CancelFunc
	epoch     int // changes with them

	run    context.Context // ends the hooks of the present run
	endRun context.CancelFunc

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
		e.end()
		e.run, e.endRun = context.WithCancel(l.asking)
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
	if e.endAsking != nil {
		e.endAsking()
	}
	e.epoch++
	e.asking, e.endAsking = context.WithCancel(asking)
	e.probes = [NumProbes]prober.Probe{}
}

// end ends the probes and hooks that are under way.
func (e *entry) end() {
	if e.endRun != nil {
		e.endRun()
		e.endAsking()
	}
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
	case doHook:
		l.hook(e, f.hook, f.grace)
	case doRecord:
		l.config.Journal.Record(Event{Time: now, Container: e.container.Name, Reason: f.reason, Message: f.message})
	}
}

// request is a message from a person: to do something for that container, or, when
// there is nothing to do, a mere sign of life.
type request struct {
	id    string
	do    func(*loop, *entry) error
	reply chan error // has room
}

func (r request) apply(l *loop) {
	if r.do == nil {
		r.reply <- nil
		return
	}
	e := l.entries[r.id]
	switch {
	case e == nil:
		r.reply <- ErrUnknownContainer
	case l.quitting:
		r.reply <- ErrStopping
	case e.spec == nil:
		r.reply <- fmt.Errorf("its labels are invalid: %s", e.invalid)
	default:
		r.reply <- r.do(l, e)
	}
}

// restart begins a restart that a person asked for.
func (l *loop) restart(e *entry) error {
	if e.container.AutoRemove {
		return ErrAutoRemove
	}
	l.step(e, &input{kind: restartAsked})
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
