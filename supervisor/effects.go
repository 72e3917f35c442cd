package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// carryOut begins one effect. The loop never waits: whatever takes time runs in a
// goroutine that ends with a message to the loop. The send of that message fails only
// when the loop has ended.
func (l *loop) carryOut(e *entry, f *core.Effect, now time.Time) {
	switch f.Kind {
	case core.RunProbe:
		l.board.lateness.observe(f.Late)
		l.runProbe(e, f.Probe)
	case core.StopContainer:
		l.callEngine(e, core.StopCall, f.Grace)
	case core.StartContainer:
		if e.state.CrashedSoon() {
			l.crashes.note(now)
		}
		l.callEngine(e, core.StartCall, 0)
	case core.RunHook:
		l.runHook(e, f.Hook, f.Grace)
	case core.InspectContainer:
		l.inspect(e)
	case core.DialEngine:
		l.dial(e)
	case core.RecordEvent:
		l.config.Journal.Record(core.Event{
			Time: now, Container: l.board.NameOf(e.container), Reason: f.Reason, Message: f.Message,
			Runtime: e.container.Runtime, Service: e.service, Probe: f.About, Detected: f.Detected,
		})
	}
}

// runProbe runs one probe.
func (l *loop) runProbe(e *entry, t core.ProbeType) {
	p, spec := e.probes[t], e.spec.Probes[t]
	if p == nil {
		var err error
		if p, err = l.config.Prober.Probe(spec.Handler, e.target()); err != nil {
			p = unbuiltProbe{err}
		}
		e.probes[t] = p
	}
	ctx, cancel := context.WithCancel(l.workCtx)
	e.cancelProbes[t] = cancel
	a := probeAnswer{id: e.container.ID, run: e.state.Run.ID, version: e.probesVersion, probe: t}
	l.wg.Go(func() {
		a.result = p.Ask(ctx, spec.Timeout)
		cancel()
		_ = l.sendTo(l.workCtx, l.answers, &a)
	})
}

// unbuiltProbe stands for a probe that could not be built: its result is Unknown.
type unbuiltProbe struct{ err error }

func (u unbuiltProbe) Ask(context.Context, time.Duration) prober.Result {
	return prober.Result{Cause: prober.NotAsked, Output: u.err.Error()}
}

func (u unbuiltProbe) Close() {}

// probeAnswer is the message that a probe came back.
type probeAnswer struct {
	id      string
	run     runtime.Run
	version uint64
	probe   core.ProbeType
	result  prober.Result
}

func (a *probeAnswer) apply(l *loop) {
	e := l.find(a.id)
	if e == nil || e.state.Run.ID != a.run || a.version < e.firstVersion {
		return
	}
	if e.probesVersion == a.version {
		e.cancelProbes[a.probe] = nil
		e.slot.recent.add(a.probe, &a.result, time.Now()) // before the step, which may begin a stop for it
	} else {
		a.result = prober.Result{Cause: prober.Pending, Output: "the container's address has changed"}
	}
	before := e.state.Totals.Outcomes[a.probe]
	l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: a.probe, Result: a.result})
	after := &e.state.Totals.Outcomes[a.probe]
	if *after == before { // the core has no use for some late answers
		return
	}
	e.slot.timeline.observe(a.probe, a.result, time.Since(l.board.began))
	if after[prober.Success] > before[prober.Success] {
		e.slot.latency.observe(a.probe, a.result.Latency)
	}
}

// runHook runs one hook, for at most limit. It ends an older hook: post_start ends before
// pre_stop begins. Unlike a probe a hook goes on when the container's address changes:
// cutting it short would count as its failure.
func (l *loop) runHook(e *entry, t core.HookType, limit time.Duration) {
	handler := e.spec.Lifecycle.PostStart
	if t == core.PreStop {
		handler = e.spec.Lifecycle.PreStop
	}
	h, err := l.config.Prober.Hook(*handler, e.target())
	ctx, cancel := context.WithTimeout(l.runContext(e), limit)
	if e.cancelHook != nil {
		e.cancelHook()
	}
	e.cancelHook = cancel
	m := hookEnded{id: e.container.ID, run: e.state.Run.ID, version: e.probesVersion, hook: t}
	l.wg.Go(func() {
		if err != nil {
			m.result = prober.HookResult{Err: err, NotAsked: true}
		} else {
			m.result = h.Run(ctx)
		}
		cancel()
		_ = l.send(l.workCtx, &m)
	})
}

// hookEnded is the message that a hook ended.
type hookEnded struct {
	id      string
	run     runtime.Run
	version uint64 // of the probes when it began
	hook    core.HookType
	result  prober.HookResult
}

func (h *hookEnded) apply(l *loop) {
	if e := l.find(h.id); e != nil && e.state.Run.ID == h.run && h.version >= e.firstVersion {
		l.step(e, &core.Input{Kind: core.HookEnded, Hook: h.hook, HookResult: h.result})
	}
}

// callEngine stops or starts a container and then inspects it, as the engine may have
// acted although the call failed, and the other way round. The end of healthd does not
// cut the call short before Config.Shutdown is over; the engine's client has deadlines, too.
func (l *loop) callEngine(e *entry, call core.Call, grace time.Duration) {
	engine := l.restarterOf(e)
	ctx, durable := l.callCtx, e.durable
	runCtx := l.runContext(e) // the look before a stop ends with the run. The stop does not: dockerd would carry it out
	run := e.state.Run.ID
	r := callReturned{id: e.container.ID, run: run, call: call}
	retry, cause := e.state.Request.Error != "", e.state.Request.Cause
	byItself := e.state.Ending.By == core.EndedByItself
	failure := l.beforeStop(e, call)
	returned := make(chan struct{})
	if call == core.StartCall {
		l.countStart(e.engine, returned)
	}
	l.wg.Go(func() {
		defer close(returned)
		late := awaitDurable(durable)
		l.recordStop(runCtx, failure) // before the look: the run may end meanwhile
		switch {
		case (retry || late && call == core.StartCall) && !stillDue(ctx, engine, &r, run),
			(retry || late) && call == core.StartCall && !l.startWanted(ctx, engine, r.id, run, byItself),
			!retry && call == core.StopCall && r.stopNotNeeded(runCtx, engine, run, cause):
			r.lookUpKills(ctx, engine)
			_ = l.send(ctx, &r)
			return
		case call == core.StopCall:
			_ = l.send(ctx, stopSending(r.id)) // the events of the stop must come after it
			r.err = engine.Stop(ctx, r.id, grace)
		default:
			r.err = engine.Start(ctx, r.id)
		}
		r.asked, r.made = time.Now(), true
		c, err := engine.Inspect(ctx, r.id)
		r.container = c
		if err != nil && r.err == nil {
			r.err = core.OutcomeUnknown{Err: err}
		}
		r.lookUpKills(ctx, engine)
		_ = l.send(ctx, &r)
	})
}

// lookUpKills asks for the signals to a run that has ended within healthd's stop. Who ended one before that comes with
// the engine's events.
func (r *callReturned) lookUpKills(ctx context.Context, engine Restarter) {
	c := r.container
	if c != nil && r.call == core.StopCall && c.Run() == r.run && !c.State.Alive() && !errors.Is(r.err, core.ErrNotSent) {
		r.kills = killsOf(ctx, engine, r.run)
	}
}

// awaitDurable waits until the decision to call is on the disk: should healthd be killed
// on the way, the next daemon finishes the restart. It does not wait for a disk that
// hangs, which must not keep a container down. late says that it took so long that somebody
// else may have acted meanwhile.
func awaitDurable(durable <-chan struct{}) (late bool) {
	const patience, soon = 2 * time.Second, 100 * time.Millisecond
	began := time.Now()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-durable:
	case <-enough.C:
	}
	return time.Since(began) > soon
}

// stillDue inspects the container before a call is repeated whose outcome is not known, or
// made long after it was decided. It returns false when the call is no longer needed, or the
// engine does not tell; r then has the container or an error.
func stillDue(ctx context.Context, engine Restarter, r *callReturned, run runtime.Run) bool {
	r.asked = time.Now()
	c, err := engine.Inspect(ctx, r.id)
	switch {
	case err != nil && r.call == core.StopCall:
		r.err = fmt.Errorf("%w: %w", core.ErrNotSent, err)
		return false
	case err != nil:
		r.err = core.OutcomeUnknown{Err: err}
		return false
	case c.Run() == run && c.State.Alive() == (r.call == core.StopCall):
		return true
	}
	r.container = c
	return false
}

// startWanted asks the loop whether the container is still to be started. News of an operator's
// stop may have come since the start was decided. It tells the loop the signals to a run that seems
// to have ended by itself: if the engine did, some of them are its own.
func (l *loop) startWanted(ctx context.Context, engine Restarter, id string, run runtime.Run, byItself bool) bool {
	q := startQuestion{id: id, run: run, reply: make(chan bool, 1)}
	if byItself {
		q.kills = killsOf(ctx, engine, run)
	}
	if l.send(ctx, q) != nil {
		return true
	}
	select {
	case wanted := <-q.reply:
		return wanted
	case <-l.ended:
		return true
	}
}

// startQuestion is the message of startWanted.
type startQuestion struct {
	id    string
	run   runtime.Run
	kills []runtime.Event
	reply chan bool // buffered, so that the loop never waits
}

func (q startQuestion) apply(l *loop) {
	e := l.find(q.id)
	if e == nil || e.state.Run.ID != q.run {
		q.reply <- false
		return
	}
	l.tellKills(e, hintOf(q.run), q.kills, false)
	q.reply <- e.state.Action.Restart != core.NoCause
}

// stopNotNeeded inspects the container before a stop, as healthd may have missed that it
// ended, has a new run, or was paused. A paused container is stopped only for an operator. After
// a look that hung there is no stop either: somebody may have started the next run meanwhile. One
// that failed at once holds up nothing.
func (r *callReturned) stopNotNeeded(ctx context.Context, engine Restarter, run runtime.Run, cause core.Cause) bool {
	const atOnce = time.Second
	r.asked = time.Now()
	c, err := engine.Inspect(ctx, r.id)
	switch {
	case ctx.Err() != nil: // the run is over
		r.err = core.ErrNotSent
	case err != nil && !errors.Is(err, runtime.ErrNotFound) && time.Since(r.asked) < atOnce:
		return false
	case err != nil:
		r.err = fmt.Errorf("%w: %w", core.ErrNotSent, err)
	case !c.State.Alive():
		r.container, r.err = c, core.ErrNotSent
	case c.Run() != run, c.State == runtime.Paused && cause != core.ByOperator:
		r.container, r.err = c, core.ErrNotSent
	default:
		return false
	}
	return true
}

// stopSending is the message that healthd sends a stop now to the container of that ID.
type stopSending string

func (id stopSending) apply(l *loop) {
	if e := l.find(string(id)); e != nil {
		l.step(e, &core.Input{Kind: core.StopSent})
	}
}

// callReturned is the message that a call to an engine returned.
type callReturned struct {
	id        string
	run       runtime.Run // the newest when the call was decided
	call      core.Call
	container *runtime.Container // nil: not known
	asked     time.Time          // when healthd began to ask for it
	kills     []runtime.Event    // the signals to the run that the call stopped, or an earlier one
	made      bool               // false: the call was not needed
	err       error
}

func (r *callReturned) apply(l *loop) {
	e := l.find(r.id)
	if e == nil {
		return
	}
	if e.unreported && errors.Is(r.err, runtime.ErrNotFound) {
		l.remove(e) // its watcher no longer reports the removal
		return
	}
	// Who ended a run that is found ended before its stop comes with the engine's events, unless
	// nobody reports them any more.
	endedBefore := errors.Is(r.err, core.ErrNotSent) && r.container != nil && !r.container.State.Alive()
	if r.container != nil && (e.state.Stale(r.container, r.asked) || endedBefore && !e.unreported) {
		r.container = nil
	}
	if r.container != nil && !l.setContainer(e, r.container) {
		return
	}
	// A KILL ends a run at once, and with it the call: it came just now, whatever the engine's
	// clock says, so that the newest signal is no late news.
	l.tellKills(e, hintOf(r.run), r.kills, r.made)
	l.step(e, &core.Input{Kind: core.CallReturned, Call: r.call, Container: r.container, EngineNow: e.engine.now(), Err: r.err})
}

// countStart counts a start call until it has returned. One that takes so long that it may hang holds up no other.
func (l *loop) countStart(engine *engineState, returned <-chan struct{}) {
	const slow = 10 * time.Second
	engine.starting++
	ctx := l.callCtx
	l.wg.Go(func() {
		over := time.NewTimer(slow)
		defer over.Stop()
		select {
		case <-returned:
		case <-over.C:
		case <-ctx.Done():
		}
		_ = l.send(ctx, startCounted{engine})
	})
}

// startCounted is the message that a start call counts no more. Those go on whose starts have waited the longest.
type startCounted struct{ engine *engineState }

func (s startCounted) apply(l *loop) {
	s.engine.starting--
	for s.engine.starting < core.MaxStarts && s.engine.startQueue.Len() > 0 {
		l.step(s.engine.startQueue.first(), &core.Input{Kind: core.Tick})
	}
}

// restarterOf returns the Restarter of a container's runtime.
func (l *loop) restarterOf(e *entry) Restarter {
	if engine, known := l.config.Runtimes[e.container.Runtime]; known {
		return engine
	}
	return unknownRuntime(e.container.Runtime)
}

// unknownRuntime is the Restarter of a runtime that is not configured: all its calls fail.
type unknownRuntime string

func (n unknownRuntime) Stop(context.Context, string, time.Duration) error { return n }
func (n unknownRuntime) Start(context.Context, string) error               { return n }
func (n unknownRuntime) Inspect(context.Context, string) (*runtime.Container, error) {
	return nil, n
}
func (n unknownRuntime) KillEvents(context.Context, runtime.Run) ([]runtime.Event, error) {
	return nil, n
}
func (n unknownRuntime) Accept(context.Context) error { return n }
func (n unknownRuntime) Error() string                { return "no runtime is named " + string(n) }
