package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// DefaultRelist is the time between two full lists where Watcher.Relist is 0.
const DefaultRelist = time.Minute

const (
	subscribeTimeout  = 10 * time.Second
	listTimeout       = 30 * time.Second
	inspectTimeout    = 10 * time.Second
	killEventsTimeout = 5 * time.Second
	clockTimeout      = 2 * time.Second
	clockTolerance    = 2 * time.Second // clocks that differ by less are taken for one clock
	pingTimeout       = 10 * time.Second
	pingAfter         = 30 * time.Second // without an event or an answer
	lossyPause        = time.Second      // between two lists with RelistLossy
	reconnectMin      = 100 * time.Millisecond
	reconnectMax      = 10 * time.Second
	stableAfter       = 10 * time.Second // a connection that lasted this long resets the back-off
	queueSize         = 4096             // events read but not yet applied
)

// Source is what Watcher needs of an engine. Every call must return soon after its
// context ended.
type Source interface {
	// Subscribe returns the events since the given moment, as far as the engine
	// still has them, and all later ones. Earlier ones may come before them. The stream
	// ends with ctx.
	Subscribe(ctx context.Context, since time.Time) (Stream, error)
	// List returns all containers, running or not.
	List(ctx context.Context) ([]Summary, error)
	// Inspect returns an error that wraps ErrNotFound when there is no such
	// container.
	Inspect(ctx context.Context, id string) (*Container, error)
	// EventHistory returns which past events the engine still has, above all whether
	// it has the one of the moment at, which may be in the future by the engine's clock.
	EventHistory(ctx context.Context, at time.Time) (EventHistory, error)
	// KillEvents returns the kill events of one run of a container that the engine still
	// has. Of an engine whose events tell no signals, there is one for each stop of the run
	// that it tells in another way, with the same time whenever it is asked.
	KillEvents(ctx context.Context, run Run) ([]Event, error)
	// Clock returns the present time by the engine's clock, to the second.
	Clock(ctx context.Context) (time.Time, error)
	// Ping returns nil when the engine answers.
	Ping(ctx context.Context) error
}

// ErrStreamEnded is in the error of a Lost when the engine, or what lies between, ended the event
// stream: an engine that ends does. A network that is cut does not.
var ErrStreamEnded = errors.New("the event stream ended")

// NotListening is in the error of a call that reached no engine, because nothing listens at its address: the reason
// in words.
type NotListening string

func (n NotListening) Error() string { return string(n) }

// Ended reports whether a Lost came because the engine, or what lies between, ended: its event stream did, or nothing
// listens at its address any more.
func Ended(err error) bool { return errors.Is(err, ErrStreamEnded) || isNotListening(err) }

func isNotListening(err error) bool {
	_, ok := errors.AsType[NotListening](err)
	return ok
}

// Stream is an engine's event stream.
type Stream interface {
	// Next waits for the next event. After an error there are no more.
	Next() (Event, error)
}

// Watcher turns a Source's events, lists and inspections into one ordered stream of
// updates about the wanted containers.
type Watcher struct {
	Name   string // of the runtime, for Update.Runtime
	Source Source
	// Since is the last Update.SeenUntil of an earlier Watcher, to the nanosecond.
	// The first subscription begins with that event, as far back as the engine's
	// history goes. Zero means now.
	Since time.Time
	// KnownRun returns the run that a container was last observed with before Since, and
	// whether it went on; the zero Run for others. Events from then on are of that run or a
	// newer one. It may be nil. Run's goroutine and others of it call it.
	KnownRun func(id string) (run Run, alive bool)
	// Relist is the time between two full lists; zero means DefaultRelist.
	Relist time.Duration
	// Wanted says which containers to report; nil means all. Where the image is not known,
	// it says whether the container may be one of them. Its answer for a container may
	// change: it takes effect with the next list. It is called by Run's goroutine only.
	Wanted func(Traits) bool
	// Refresh makes a list at once with each value received; it may be nil. A list that reaches no engine is a loss.
	Refresh <-chan struct{}
	Log     *zap.Logger // may be nil

	view *view // what Run knows; its goroutine's own
}

// Run sends updates until ctx ends or send fails, and returns why. It calls send
// from one goroutine only. When the engine cannot be reached, Run sends Lost and
// tries again with a back-off, for ever. It sends Lost again when there is another reason.
func (w *Watcher) Run(ctx context.Context, send func(context.Context, Update) error) error {
	v := newView(w.Wanted)
	w.view = v
	v.knownRun = w.KnownRun
	v.newest.at = w.Since
	s := &sender{ctx: ctx, runtime: w.Name, send: send}
	reason, delay, lost := RelistStart, reconnectMin, ""
	for {
		began := time.Now()
		synced, err := w.session(ctx, v, s, reason)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.err != nil {
			return fmt.Errorf("cannot deliver the updates of %s: %w", w.Name, s.err)
		}
		v.disconnected()
		if synced {
			reason, lost = RelistReconnect, ""
			if time.Since(began) >= stableAfter {
				delay = reconnectMin
			}
		}
		if text := err.Error(); lost != text {
			if lost == "" {
				w.log().Warn("engine lost", zap.String("runtime", w.Name), zap.Error(err))
			}
			lost = text
			if s.one(Update{Kind: Lost, Time: time.Now(), Err: err, SeenUntil: v.seenUntil()}) != nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(jitter(delay)):
		}
		delay = min(2*delay, reconnectMax)
	}
}

func (w *Watcher) relist() time.Duration {
	if w.Relist > 0 {
		return w.Relist
	}
	return DefaultRelist
}

func (w *Watcher) log() *zap.Logger {
	if w.Log == nil {
		return zap.NewNop()
	}
	return w.Log
}

// sender calls send until that has failed once.
type sender struct {
	ctx     context.Context
	runtime string
	send    func(context.Context, Update) error
	err     error
}

func (s *sender) one(u Update) error {
	if s.err != nil {
		return s.err
	}
	u.Runtime = s.runtime
	s.err = s.send(s.ctx, u)
	return s.err
}

func (s *sender) all(us []Update) error {
	for _, u := range us {
		if err := s.one(u); err != nil {
			return err
		}
	}
	return nil
}

// jitter spreads d over ±20 %, so that many daemons do not reconnect at once.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5)
}

// subscribe gives the call a deadline, but not the stream that it returns.
func subscribe(ctx context.Context, src Source, since time.Time) (Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	errTimeout := fmt.Errorf("no answer to the subscription within %v", subscribeTimeout)
	stop := time.AfterFunc(subscribeTimeout, func() { cancel(errTimeout) })
	stream, err := src.Subscribe(ctx, since)
	if stop.Stop() && err == nil {
		return stream, nil
	}
	cancel(nil)
	if errors.Is(context.Cause(ctx), errTimeout) {
		return nil, errTimeout
	}
	return nil, err
}
