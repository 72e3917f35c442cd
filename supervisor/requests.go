package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Errors of requests; some are wrapped by an error that says more. A request for a
// container with invalid labels returns an error that says what is wrong with them.
var (
	ErrUnknownContainer = errors.New("no supervised container has that name or ID")
	ErrNoProbe          = errors.New("the container has no such probe")
	ErrNoGate           = errors.New("the container has no such readiness gate")
	ErrNotRunning       = errors.New("the container is not running")
	ErrAutoRemove       = errors.New("the engine removes the container when it exits (--rm), so healthd cannot restart it")
	ErrHeld             = errors.New("an operator holds the container: resume it first")
	ErrManagedElsewhere = errors.New("another orchestrator manages the container")
	ErrObserved         = errors.New("healthd only observes the container (mode observe), so it does not restart it")
	ErrRuntimeLost      = errors.New("healthd has no connection to the container's engine: try again when the engine is back")
	ErrStopping         = errors.New("healthd is shutting down")
)

// Restart restarts the container of that name or ID prefix: withdraw, drain, stop, start.
// The restart policy does not matter. Restart returns when the restart has begun, and
// returns nil when one is already under way.
//
// It returns ErrUnknownContainer, ErrHeld, ErrObserved, ErrStopping, ErrAutoRemove when the engine
// would remove the container (--rm), ErrManagedElsewhere when the start is another orchestrator's, or
// ErrRuntimeLost when healthd has no connection to the engine: an event from before the request could
// then arrive after it.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	return s.requestOf(ctx, name, (*loop).restart)
}

// restart begins the restart that a person asked for.
func (l *loop) restart(e *entry) error {
	switch {
	case e.container.AutoRemove:
		return ErrAutoRemove
	case e.spec.ManagedElsewhere != "":
		return fmt.Errorf("%w: ask %s to replace it, as healthd never starts it (orchestrated)", ErrManagedElsewhere, e.spec.ManagedElsewhere)
	case e.state.Lasting.Held():
		return ErrHeld
	case e.spec.Observe:
		return ErrObserved
	case e.state.Lost:
		return ErrRuntimeLost
	}
	l.step(e, &core.Input{Kind: core.RestartRequested})
	return nil
}

// Hold pauses the restarts of the container of that name or ID prefix until that time;
// the zero time means until Resume. Probing goes on. A container that healthd is already
// stopping is started again. Hold returns ErrUnknownContainer or ErrStopping.
func (s *Supervisor) Hold(ctx context.Context, name string, until time.Time) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		l.inherit(e, true)
		l.step(e, &core.Input{Kind: core.HoldRequested, Time: until})
		return nil
	})
}

// HoldByFleet tells which hold all hosts have of the service of the container of that name or ID prefix; empty: none. It
// ends no hold that people on this host have, nor what healthd has given up. After a Resume that hold counts no more.
// HoldByFleet returns ErrUnknownContainer or ErrStopping.
func (s *Supervisor) HoldByFleet(ctx context.Context, name, hold string) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		l.step(e, &core.Input{Kind: core.FleetHolds, Hold: hold})
		return nil
	})
}

// Resume ends all holds, and has healthd restart a container again that it has given up. It returns nil when there is
// nothing to end, and ErrUnknownContainer or ErrStopping otherwise.
func (s *Supervisor) Resume(ctx context.Context, name string) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		l.inherit(e, true)
		l.step(e, &core.Input{Kind: core.ResumeRequested})
		return nil
	})
}

// SetGate sets a readiness gate of the container of that name or ID prefix. The Board
// shows the readiness that follows when SetGate returns. It returns ErrUnknownContainer,
// ErrStopping, or ErrNoGate when the container's spec does not name the gate.
func (s *Supervisor) SetGate(ctx context.Context, name, gate string, status bool) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		if !slices.Contains(e.spec.ReadinessGates, gate) {
			return ErrNoGate
		}
		l.step(e, &core.Input{Kind: core.GateSet, Gate: gate, Status: status})
		return nil
	})
}

// Drained reports that load balancers send nothing more to that run and that all its
// requests are answered of HAProxy are answered. A stop that waits for the drain is made as soon as core.Publish.LeastDrain is over. Drained has no
// effect when no stop waits, or before the drain has begun. It returns ErrStopping or the error of ctx.
func (s *Supervisor) Drained(ctx context.Context, run runtime.Run) error {
	return s.send(ctx, connectionsDrained(run))
}

// Withdrawn reports that all load balancers that are told by something slower than a message know that the run takes no new
// requests: its drain begins. Withdrawn has no effect on any other run, or when the drain has begun already. The error is
// ErrStopping, or that of ctx.
func (s *Supervisor) Withdrawn(ctx context.Context, run runtime.Run) error {
	return s.send(ctx, withdrawn(run))
}

// withdrawn is the message that load balancers know of a withdrawal.
type withdrawn runtime.Run

func (run withdrawn) apply(l *loop) {
	if e := l.find(run.ID); e != nil && e.spec != nil && e.state.Run.ID == runtime.Run(run) {
		l.step(e, &core.Input{Kind: core.Withdrawn})
	}
}

// connectionsDrained is the message that load balancers have drained a run.
type connectionsDrained runtime.Run

func (run connectionsDrained) apply(l *loop) {
	if e := l.find(run.ID); e != nil && e.spec != nil && e.state.Run.ID == runtime.Run(run) {
		l.step(e, &core.Input{Kind: core.ConnectionsDrained})
	}
}

// Ask runs one probe of a container once, now, and changes nothing. It returns
// ErrUnknownContainer, ErrNoProbe or ErrNotRunning, or why the probe cannot be built.
func (s *Supervisor) Ask(ctx context.Context, name string, t core.ProbeType) (prober.Result, error) {
	v, err := s.board.Find(name)
	switch {
	case err != nil:
		return prober.Result{}, err
	case v.Spec == nil:
		return prober.Result{}, fmt.Errorf("%w: its labels are invalid: %s", ErrNoProbe, v.Invalid)
	case v.Spec.Probes[t] == nil:
		return prober.Result{}, ErrNoProbe
	case v.State.Engine.State != runtime.Running:
		return prober.Result{}, fmt.Errorf("%w: it is %s", ErrNotRunning, v.State.Engine.State)
	}
	namespace := namespaceOf(v.Container)
	defer namespace.Close()
	p, err := s.config.Prober.Probe(v.Spec.Probes[t].Handler, target(v.Container, namespace))
	if err != nil {
		return prober.Result{}, err
	}
	defer p.Close()
	// The caller's goroutine may go on after the probe: that wants one of its own.
	result := make(chan prober.Result)
	go func() { result <- p.Ask(ctx, v.Spec.Probes[t].Timeout) }()
	return <-result, nil
}

func target(c *runtime.Container, namespace *prober.Namespace) prober.Target {
	return prober.Target{
		Runtime: c.Runtime, ID: c.ID, Address: c.ProbeAddress(), Unreached: c.Unreached(), Confined: c.From.Confined(), Namespace: namespace, Env: c.Env, EnvClipped: c.EnvClipped,
	}
}

func namespaceOf(c *runtime.Container) *prober.Namespace {
	if c.From != nil && c.From.CannotEnter != "" && c.Pid > 0 {
		return prober.BarredNamespace(c.From.CannotEnter)
	}
	return prober.NewNamespace(c.Pid, c.EngineID())
}

// Ping returns nil when the loop has handled a message sent now. It returns ErrStopping
// when the loop has ended, or the error of ctx.
func (s *Supervisor) Ping(ctx context.Context) error {
	return s.request(ctx, request{})
}

// requestOf has the loop call do for one container.
func (s *Supervisor) requestOf(ctx context.Context, name string, do func(*loop, *entry) error) error {
	v, err := s.board.Find(name)
	if err != nil {
		return err
	}
	return s.request(ctx, request{id: v.Container.ID, do: do})
}

func (s *Supervisor) request(ctx context.Context, r request) error {
	r.reply = make(chan error, 1)
	if err := s.send(ctx, r); err != nil {
		return err
	}
	select {
	case err := <-r.reply:
		return err
	case <-s.ended:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request is a message that waits for a reply. It calls do for one container or all for
// the whole loop, and then also waits for what all puts into the backlog; a Ping sets
// neither.
type request struct {
	id    string
	do    func(*loop, *entry) error
	all   func(*loop)
	reply chan error // buffered, so that the loop never waits
}

func (r request) apply(l *loop) {
	if r.do == nil {
		if r.all == nil {
			r.reply <- nil
			return
		}
		r.all(l)
		l.afterBacklog(func() { r.reply <- nil })
		return
	}
	e := l.find(r.id)
	switch {
	case e == nil:
		r.reply <- ErrUnknownContainer
	case l.shuttingDown:
		r.reply <- ErrStopping
	case e.spec == nil:
		r.reply <- fmt.Errorf("the container's labels are invalid: %s", e.invalid)
	default:
		r.reply <- r.do(l, e)
	}
}
