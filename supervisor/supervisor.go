package supervisor

import (
	"context"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Restarter stops, starts and inspects the containers of one runtime. Each call has a
// deadline of its own. Stop may take the grace period and a little more.
type Restarter interface {
	// Stop sends the stop signal and, after grace, kills. It returns nil when the
	// container is already stopped.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Start starts a container. It returns nil when the container already runs.
	Start(ctx context.Context, id string) error
	// Inspect returns the container as it is now. The error wraps runtime.ErrNotFound
	// when there is no such container.
	Inspect(ctx context.Context, id string) (*runtime.Container, error)
	// KillEvents returns the signals to one run of a container that the engine still knows
	// of, oldest first.
	KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error)
	// Accept opens a new connection and returns nil when the engine answers on it. An
	// engine that shuts down still serves old connections, but refuses new ones.
	Accept(ctx context.Context) error
}

// Prober builds probes and lifecycle hooks for one container.
type Prober interface {
	Probe(prober.Handler, prober.Target) (prober.Probe, error)
	Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error)
}

// Config is what a Supervisor works with. Guard and all fields below it are optional.
type Config struct {
	Resolve   Resolver
	Runtimes  map[string]Restarter // by runtime name
	Prober    Prober
	Journal   Journal
	Guard     core.Guard     // zero: no restart budget
	Store     Store          // nil: nothing outlives the daemon
	Memories  []*core.Memory // what an earlier daemon stored
	Rebooted  []string       // the runtimes whose host was booted after that
	Publisher Publisher      // nil: there is no load balancer to tell
	Recorder  Recorder       // nil: there are no flight records
	Places    Places         // nil: there is no fleet
	// Shutdown is how long Run may take to end; zero means no bound. Then it leaves what it has
	// not finished to the next daemon.
	Shutdown time.Duration
	// CannotEnter is why healthd cannot ask inside containers' network namespaces; empty:
	// it can. Those whom that concerns get a warning.
	CannotEnter string
}

// inboxSize bounds the messages that wait for the loop, so that the newest one is handled
// soon. Senders wait when the inbox is full.
const inboxSize = 128

// Supervisor keeps containers healthy. Its methods may be called from any goroutine.
type Supervisor struct {
	config Config
	board  *Board
	inbox  chan message
	// The answers of probes have a way of their own: when those of 10,000 containers come
	// at once, engines and people do not wait for all of them.
	answers    chan message
	ended      chan struct{} // closed when the loop takes no more messages
	sliceSteps int           // of one slice
}

// message is something that the loop applies to its state.
type message interface{ apply(*loop) }

// New returns a Supervisor. It does nothing before Run.
func New(c Config) *Supervisor {
	s := &Supervisor{
		config: c, board: &Board{began: time.Now()}, inbox: make(chan message, inboxSize), answers: make(chan message, inboxSize),
		ended: make(chan struct{}), sliceSteps: sliceSteps,
	}
	if s.config.Store == nil {
		s.config.Store = noStore{}
	}
	if s.config.Publisher == nil {
		s.config.Publisher = noPublisher{}
	}
	for name := range c.Runtimes {
		s.board.runtimes.set(name, RuntimeView{Name: name})
	}
	return s
}

// Board returns the board with the newest view of each supervised container.
func (s *Supervisor) Board() *Board { return s.board }

// Deliver hands an update of a runtime to the loop. It waits while the inbox is full.
// It returns ErrStopping when the loop has ended, or the error of ctx.
func (s *Supervisor) Deliver(ctx context.Context, u runtime.Update) error {
	return s.send(ctx, update(u))
}

func (s *Supervisor) send(ctx context.Context, m message) error {
	return s.sendTo(ctx, s.inbox, m)
}

func (s *Supervisor) sendTo(ctx context.Context, box chan<- message, m message) error {
	select {
	case box <- m:
		return nil
	case <-s.ended:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
