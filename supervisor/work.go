package supervisor

import (
	"context"
	"errors"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// What follows is done beside the loop, which never waits: each piece of work ends as a
// message to it.

// ask runs one probe and sends its answer to the loop.
func (l *loop) ask(e *entry, t core.ProbeType) {
	p, spec := e.probes[t], e.spec.Probes[t]
	if p == nil {
		var err error
		if p, err = l.config.Prober.Probe(spec.Handler, target(e.container)); err != nil {
			p = unaskable{err}
		}
		e.probes[t] = p
	}
	ctx, a := e.asking, probeAnswer{id: e.container.ID, run: e.state.Run.ID, epoch: e.probesVersion, probe: t}
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

// hook runs one hook and sends its end to the loop. A change of the container's
// address does not end it, as it ends a probe: that would count as its failure. Before
// pre_stop begins, post_start ends.
func (l *loop) hook(e *entry, t core.HookType, most time.Duration) {
	handler := e.spec.Lifecycle.PostStart
	if t == core.PreStop {
		handler = e.spec.Lifecycle.PreStop
	}
	h, err := l.config.Prober.Hook(*handler, target(e.container))
	run, cancel := context.WithTimeout(e.run, most)
	if e.endHook != nil {
		e.endHook()
	}
	e.endHook = cancel
	m := hookEnded{id: e.container.ID, run: e.state.Run.ID, hook: t}
	l.wg.Go(func() {
		if err != nil {
			m.result = prober.HookResult{Err: err, NotAsked: true}
		} else {
			m.result = h.Run(run)
		}
		cancel()
		_ = l.send(l.asking, &m) // fails when the loop has ended
	})
}

// hookEnded is the message that a hook ended.
type hookEnded struct {
	id     string
	run    runtime.Run
	hook   core.HookType
	result prober.HookResult
}

func (h *hookEnded) apply(l *loop) {
	if e := l.entries[h.id]; e != nil && e.state.Run.ID == h.run {
		l.step(e, &core.Input{Kind: core.HookEnded, Hook: h.hook, HookResult: h.result})
	}
}

// call makes one call to the engine and sends its end to the loop, with a look at
// what became of the container: the call's own word is not the truth. It is not
// cut short when healthd ends; the engine's client has deadlines.
func (l *loop) call(e *entry, kind core.Call, grace time.Duration) {
	engine := l.engineOf(e)
	ctx, kept := context.WithoutCancel(l.asking), e.durable
	r := callReturned{id: e.container.ID, call: kind}
	run, doubtful, cause := e.state.Run.ID, e.state.Request.Error != "", e.state.Request.Cause
	l.wg.Go(func() {
		awaitDurable(kept)
		switch {
		case doubtful && !stillDue(ctx, engine, &r, run), kind == core.StopCall && !doubtful && r.notNeeded(ctx, engine, cause):
			_ = l.send(ctx, &r) // fails when the loop has ended
			return
		case kind == core.StopCall:
			_ = l.send(ctx, stopSending(r.id)) // before any news of it
			r.err = engine.Stop(ctx, r.id, grace)
		default:
			r.err = engine.Start(ctx, r.id)
		}
		c, err := engine.Inspect(ctx, r.id)
		r.container = c
		if err != nil && r.err == nil {
			r.err = core.OutcomeUnknown{Err: err}
		}
		_ = l.send(ctx, &r) // fails when the loop has ended
	})
}

// notNeeded looks, as events may be lost, whether a stop is to be made at all.
func (r *callReturned) notNeeded(ctx context.Context, engine Restarter, cause core.Cause) bool {
	c, err := engine.Inspect(ctx, r.id)
	switch {
	case err != nil:
		return false // the stop will tell
	case !c.State.Alive():
		r.err = core.ErrNotSent
	case c.State == runtime.Paused && cause != core.ByOperator:
		r.container, r.err = c, core.ErrNotSent
	default:
		return false
	}
	return true
}

// stopSending is the message that a stop is being made.
type stopSending string

func (id stopSending) apply(l *loop) {
	if e := l.entries[string(id)]; e != nil {
		l.step(e, &core.Input{Kind: core.StopSent})
	}
}

// engineOf returns what acts on a container.
func (l *loop) engineOf(e *entry) Restarter {
	if engine, known := l.config.Runtimes[e.container.Runtime]; known {
		return engine
	}
	return noEngine(e.container.Runtime)
}

// inspect asks the engine what the container is now.
func (l *loop) inspect(e *entry) {
	engine, id := l.engineOf(e), e.container.ID
	l.wg.Go(func() {
		if c, err := engine.Inspect(l.asking, id); err == nil {
			_ = l.send(l.asking, inspected{c}) // fails when the loop has ended
		}
	})
}

// dial asks an engine whether it takes new connections, if that is not being done.
func (l *loop) dial(e *entry) {
	engine, m := l.engineOf(e), dialed{runtime: e.container.Runtime, began: time.Now()}
	if l.dialing[m.runtime] {
		return // who came later asks again
	}
	l.dialing[m.runtime] = true
	l.wg.Go(func() {
		m.err = engine.Accept(l.asking)
		_ = l.send(l.asking, m) // fails when the loop has ended
	})
}

// dialed is the message that an engine was asked whether it takes new connections.
type dialed struct {
	runtime string
	began   time.Time
	err     error
}

func (m dialed) apply(l *loop) {
	delete(l.dialing, m.runtime)
	if m.err != nil {
		return
	}
	for _, e := range l.entriesOf(m.runtime) {
		if e.state.Ending.MaybeEngine {
			l.step(e, &core.Input{Kind: core.EngineAccepts, Time: m.began})
		}
	}
}

// inspected is the message that the engine was asked.
type inspected struct{ container *runtime.Container }

func (m inspected) apply(l *loop) {
	if l.entries[m.container.ID] != nil {
		l.observed(update{Runtime: m.container.Runtime, Container: m.container})
	}
}

// stillDue looks, before a call is repeated of which nobody knows what came of it,
// whether it is still to be made. If not, r says what the container is now.
func stillDue(ctx context.Context, engine Restarter, r *callReturned, run runtime.Run) bool {
	c, err := engine.Inspect(ctx, r.id)
	if err != nil {
		r.err = core.OutcomeUnknown{Err: err}
		return false
	}
	if c.Run() == run && c.State.Alive() == (r.call == core.StopCall) {
		return true
	}
	r.container = c
	return false
}

// awaitDurable waits until what healthd is about to do is on the disk, so that it
// finishes the job should it be killed on the way. A disk that hangs must not keep a
// container from being healed.
func awaitDurable(kept <-chan struct{}) {
	const patience = 2 * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-kept:
	case <-late.C:
	}
}

// noEngine stands for a runtime that nobody has configured.
type noEngine string

func (n noEngine) Stop(context.Context, string, time.Duration) error { return n }
func (n noEngine) Start(context.Context, string) error               { return n }
func (n noEngine) Inspect(context.Context, string) (*runtime.Container, error) {
	return nil, n
}
func (n noEngine) Accept(context.Context) error { return n }
func (n noEngine) Error() string                { return "there is no runtime " + string(n) }

// probeAnswer is the message that a probe came back.
type probeAnswer struct {
	id     string
	run    runtime.Run
	epoch  int
	probe  core.ProbeType
	result prober.Result
}

func (a *probeAnswer) apply(l *loop) {
	e := l.entries[a.id]
	if e == nil || e.state.Run.ID != a.run {
		return // of an earlier run
	}
	if e.probesVersion != a.epoch {
		a.result = prober.Result{Cause: prober.Pending, Output: "the container's address has changed"}
	}
	l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: a.probe, Result: a.result})
}

// callReturned is the message that a call to an engine came back.
type callReturned struct {
	id        string
	call      core.Call
	container *runtime.Container
	err       error
}

func (r *callReturned) apply(l *loop) {
	e := l.entries[r.id]
	if e == nil {
		return // removed meanwhile
	}
	if e.unreported && errors.Is(r.err, runtime.ErrNotFound) {
		l.remove(e) // nobody else would tell
		return
	}
	if r.container != nil && e.state.Stale(r.container) {
		r.container = nil
	}
	if r.container != nil && !l.setContainer(e, r.container) {
		return
	}
	l.step(e, &core.Input{Kind: core.CallReturned, Call: r.call, Container: r.container, Err: r.err})
}
