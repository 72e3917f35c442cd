package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// History is what a Notifier needs of the journal.
type History interface {
	// Last returns the number of the newest event.
	Last() uint64
	// After returns the first events after a number, the number up to which these are all, and
	// a channel that is closed when there are more.
	After(seq uint64) ([]core.Event, uint64, <-chan struct{})
	// Problem returns what keeps the journal from being written; empty: nothing.
	Problem() string
	// Record adds an event. It does not block.
	Record(core.Event)
}

// Receiver is somebody to be told. Exactly one of URL, Webhook and Command is set.
type Receiver struct {
	Name    string // unique
	URL     string // of shoutrrr; a secret as a whole
	Webhook string // http or https; a secret but for its scheme and host
	Command []string
	Secret  []byte // signs what a webhook gets; empty: nothing is signed

	Reasons []string // of incidents and events
	// Wants says whether the receiver is told of a service and a project, which may be empty; nil: of all.
	Wants func(service, project string) bool

	GroupWait  time.Duration // how long more is gathered for one message
	Repeat     time.Duration // how often it is told of what lasts
	Timeout    time.Duration // of one attempt
	MaxPerHour int           // messages; at least 2
}

func (r *Receiver) wants(s *subject) bool {
	return slices.Contains(r.Reasons, s.Reason) && (r.Wants == nil || r.Wants(s.Service, s.Project))
}

// Config is what a Notifier works with.
type Config struct {
	Board     *supervisor.Board
	History   History
	Receivers []Receiver
	Host      string // the name of this host, in messages
	// File keeps what was told and what is pending over a restart; empty: nothing is kept.
	File string
	// Chat is a command that calls DeliverChat with its stdin.
	Chat []string
}

// Notifier tells receivers what is wrong. Its methods may be called from any goroutine.
type Notifier struct {
	config    Config
	receivers atomic.Pointer[[]Receiver]
	reload    chan []Receiver
	ended     chan struct{} // closed when Run has returned
	results   chan result
	metrics   *metrics
	problems  supervisor.Problems // by receiver
	running   sync.WaitGroup      // attempts

	try  func(context.Context, *Receiver, *Message) error
	look func(open map[string]incident, now time.Time) facts
}

// Problems returns which receivers cannot be told, for people. Any goroutine may call it.
func (n *Notifier) Problems() []string { return n.problems.All() }

// New returns a Notifier that does nothing before Run.
func New(c Config) *Notifier {
	n := &Notifier{config: c, reload: make(chan []Receiver), ended: make(chan struct{}), results: make(chan result), metrics: newMetrics()}
	n.use(c.Receivers)
	n.try = n.attempt
	n.look = func(open map[string]incident, now time.Time) facts {
		return look(c.Board, c.History.Problem(), open, now)
	}
	return n
}

func (n *Notifier) use(all []Receiver) {
	n.receivers.Store(&all)
	n.metrics.receivers(all)
}

// Reload replaces the receivers. One of the same name goes on with what it was told and what is pending. It
// waits for Run, and returns the error of ctx or that Run has returned.
func (n *Notifier) Reload(ctx context.Context, receivers []Receiver) error {
	select {
	case n.reload <- receivers:
		return nil
	case <-n.ended:
		return supervisor.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrUnknownReceiver is why Test has nobody to tell.
var ErrUnknownReceiver = errors.New("there is no such receiver")

// Tested is the outcome of a message that Test sent.
type Tested struct {
	Receiver string
	Err      error
	Took     time.Duration
}

// Test sends a message to the receiver of that name, or to all if name is empty, at once and all at the same time.
// It makes one attempt, and returns the outcomes in the order of the receivers.
func (n *Notifier) Test(ctx context.Context, name string) ([]Tested, error) {
	all := *n.receivers.Load()
	if name != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(r Receiver) bool { return r.Name != name })
	}
	if len(all) == 0 && name == "" {
		return nil, fmt.Errorf("%w: the configuration has no [[notify]]", ErrUnknownReceiver)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknownReceiver, name)
	}
	outcomes := make([]Tested, len(all))
	var sending sync.WaitGroup
	for i := range all {
		sending.Go(func() {
			begun := time.Now()
			err := n.try(ctx, &all[i], testMessage(all[i].Name, n.config.Host, begun))
			outcomes[i] = Tested{all[i].Name, err, time.Since(begun)}
			if err == nil {
				n.problems.Set(all[i].Name)
			}
		})
	}
	sending.Wait()
	return outcomes, nil
}

// testMessage returns the message that somebody asked for.
func testMessage(receiver, host string, now time.Time) *Message {
	at := now.UTC().Round(0)
	return &Message{
		Version: schemaVersion, ID: newID(), Time: at, Host: host, Receiver: receiver, Status: test,
		Title: "[" + host + "] Test of healthd", Count: 1,
		Text:    "Somebody ran healthd notify test on " + host + ". Nothing is wrong.\n",
		Entries: []Entry{{Status: test, subject: subject{Reason: "Test"}, Since: at, Cause: "somebody ran healthd notify test"}},
	}
}
