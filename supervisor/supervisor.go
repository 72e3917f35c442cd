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

// Restarter acts on containers. Its calls may take as long as the grace period and
// a little more; each has a deadline of its own.
type Restarter interface {
	// Stop sends the stop signal and, after grace, kills. A container that has
	// stopped already is no error.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Start starts a container that does not run. One that runs is no error.
	Start(ctx context.Context, id string) error
	// Inspect returns the container as it is now.
	Inspect(ctx context.Context, id string) (*runtime.Container, error)
	// Accept returns nil when the engine answers on a new connection. One that shuts
	// down still serves old ones.
	Accept(ctx context.Context) error
}

// Prober builds what asks one question of one container, and what tells it
// something.
type Prober interface {
	Probe(prober.Handler, prober.Target) (prober.Probe, error)
	Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error)
}

// Config is what a Supervisor works with. Those from Guard on may be left out.
type Config struct {
	Resolve  Resolver
	Runtimes map[string]Restarter // by runtime name
	Prober   Prober
	Journal  Journal
	Guard    core.Guard
	Store    Store         // nil: nothing is kept over the end of the daemon
	Memories []core.Memory // what an earlier daemon has kept
	Rebooted bool          // the host was started since then
	// Publisher is told of changes; nil: nobody is.
	Publisher Publisher
}

// Errors of requests.
var (
	ErrUnknownContainer = errors.New("no supervised container has that name or ID")
	ErrNoProbe          = errors.New("the container has no such probe")
	ErrNoGate           = errors.New("the container has no such readiness gate")
	ErrNotRunning       = errors.New("the container does not run")
	ErrAutoRemove       = errors.New("the engine removes the container when it ends (--rm), so it cannot be restarted")
	ErrHeld             = errors.New("the container is held: resume it first")
	ErrRuntimeLost      = errors.New("its engine cannot be heard: ask again when it is back")
	ErrStopping         = errors.New("healthd is shutting down")
)

// inboxSize bounds the messages that wait for the loop. It is drained in
// microseconds; senders wait when it is full.
const inboxSize = 1024

// Supervisor keeps containers healthy. Its methods may be called from any
// goroutine.
type Supervisor struct {
	config Config
	board  *Board
	inbox  chan message
	ended  chan struct{} // closed when the loop takes no more messages
}

// message is something for the loop to take in.
type message interface{ apply(*loop) }

// New returns a Supervisor that does nothing until it is run.
func New(c Config) *Supervisor {
	s := &Supervisor{config: c, board: &Board{}, inbox: make(chan message, inboxSize), ended: make(chan struct{})}
	if s.config.Store == nil {
		s.config.Store = noStore{}
	}
	if s.config.Publisher == nil {
		s.config.Publisher = noPublisher{}
	}
	for name := range c.Runtimes {
		s.board.runtimes.Store(name, RuntimeView{Name: name})
	}
	return s
}

// Board returns the board that shows what the supervisor knows.
func (s *Supervisor) Board() *Board { return s.board }

// Deliver hands over what a runtime reports. It waits while the inbox is full.
func (s *Supervisor) Deliver(ctx context.Context, u runtime.Update) error {
	return s.send(ctx, update(u))
}

func (s *Supervisor) send(ctx context.Context, m message) error {
	select {
	case s.inbox <- m:
		return nil
	case <-s.ended:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ping returns when a message has gone round the loop.
func (s *Supervisor) Ping(ctx context.Context) error {
	return s.request(ctx, request{})
}

// Restart asks for a restart of the container of that name or ID prefix: withdraw,
// drain, stop, start, whatever its restart policy. It returns when the restart has
// begun. One that is under way already is no error. A container that its engine
// removes when it ends (--rm) cannot be restarted, nor one whose engine cannot be heard:
// nobody would know what was done to it before and what after.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	return s.requestOf(ctx, name, (*loop).restart)
}

// SetGate says that a readiness gate of the container of that name or ID prefix is
// True or False. It returns when readiness follows. The gate must be one of the
// container's spec.
func (s *Supervisor) SetGate(ctx context.Context, name, gate string, status bool) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		if !slices.Contains(e.spec.ReadinessGates, gate) {
			return ErrNoGate
		}
		l.step(e, &core.Input{Kind: core.GateSet, Gate: gate, Status: status})
		return nil
	})
}

// Hold lets nothing be restarted of the container of that name or ID prefix, until
// that moment, or until Resume when it is zero. Probing goes on; what healthd was
// stopping already it starts again.
func (s *Supervisor) Hold(ctx context.Context, name string, until time.Time) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		l.step(e, &core.Input{Kind: core.HoldRequested, Time: until})
		return nil
	})
}

// Resume ends a hold. One that is not held is no error.
func (s *Supervisor) Resume(ctx context.Context, name string) error {
	return s.requestOf(ctx, name, func(l *loop, e *entry) error {
		l.step(e, &core.Input{Kind: core.ResumeRequested})
		return nil
	})
}

// requestOf has the loop do something for one container.
func (s *Supervisor) requestOf(ctx context.Context, name string, do func(*loop, *entry) error) error {
	v, ok := s.board.Find(name)
	if !ok {
		return ErrUnknownContainer
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

// Ask runs one of a container's probes once, now, and changes nothing.
func (s *Supervisor) Ask(ctx context.Context, name string, t core.ProbeType) (prober.Result, error) {
	v, ok := s.board.Find(name)
	switch {
	case !ok:
		return prober.Result{}, ErrUnknownContainer
	case v.Spec == nil:
		return prober.Result{}, fmt.Errorf("%w: what is set for it is wrong: %s", ErrNoProbe, v.Invalid)
	case v.Spec.Probes[t] == nil:
		return prober.Result{}, ErrNoProbe
	case v.State.Engine.State != runtime.Running:
		return prober.Result{}, fmt.Errorf("%w: it is %s", ErrNotRunning, v.State.Engine.State)
	}
	p, err := s.config.Prober.Probe(v.Spec.Probes[t].Handler, target(v.Container))
	if err != nil {
		return prober.Result{}, err
	}
	return p.Ask(ctx, v.Spec.Probes[t].Timeout), nil
}

func target(c *runtime.Container) prober.Target {
	return prober.Target{Runtime: c.Runtime, ID: c.ID, Address: c.Address, Env: c.Env}
}
