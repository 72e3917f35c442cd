// Package recorder makes flight records of containers that fail, and keeps the newest: what a container
// wrote, ran and used, what its probes found, and what a command inside it said.
//
//	supervisor ── Record(Occasion) ──▶ asks the engine, the prober and the journal, all at once,
//	                                   for as long as the supervisor allows
//	                                        │ FlightRecord, without values of the environment
//	                                        ▼ queue
//	                                   Run: STATE_DIR/records/*.json.gz, bounded, mode 0600
//	api ◀── Find, Read ─────────────────────┘
//
// Whether and when a record is made is decided by package supervisor. A disk that is full or hangs harms
// nothing else: the newest records are then kept in memory, and RecorderFailed says so once.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Engine is what a record needs of a container engine.
type Engine interface {
	Logs(ctx context.Context, id string, lines, bytes int) (runtime.Log, error)
	Processes(ctx context.Context, id string) (runtime.Processes, error)
	Usage(ctx context.Context, id string) (runtime.Usage, error)
}

// Asker runs a command inside a container, at most for the timeout.
type Asker interface {
	Inquire(ctx context.Context, command prober.Exec, t prober.Target, timeout time.Duration, bytes int) prober.Answer
}

// History has the events of the past.
type History interface {
	Events(container string, since time.Time) []core.Event
}

// Config is what a Recorder works with.
type Config struct {
	Dir     string            // of the records; empty: they are kept in memory
	Engines map[string]Engine // by name of the runtime
	Asker   Asker
	History History
	Journal supervisor.Journal // hears of RecorderFailed
}

const (
	// stopsAtOnce and crashesAtOnce bound the records that are being made: of containers whose stop
	// waits, and of others. So many of each may wait for their turn.
	stopsAtOnce   = 32
	crashesAtOnce = 8
	mostWaiting   = 256
	// queueSize bounds the records that wait for the disk.
	queueSize = 16
	tidyEvery = time.Hour
	// tellEvery is how often the same trouble is told at most, unless it was over meanwhile.
	tellEvery = 10 * time.Minute
)

// Recorder makes and keeps flight records. Any goroutine may call its methods.
type Recorder struct {
	config  Config
	store   *store
	stops   turns
	crashes turns
	queue   chan *made
	asking  sync.WaitGroup // goroutines that ask engines

	crowded, slow, disk trouble
}

// turns bound how many records are made at once, and how many wait for that.
type turns struct {
	places  chan struct{}
	waiting atomic.Int64
}

// take waits for a place until ctx ends, and returns false if there is none. leave gives it back.
func (t *turns) take(ctx context.Context) bool {
	defer t.waiting.Add(-1)
	if t.waiting.Add(1) > mostWaiting {
		return false
	}
	select {
	case t.places <- struct{}{}:
		if at, ok := ctx.Deadline(); ctx.Err() == nil && (!ok || time.Until(at) > leave) {
			return true
		}
		t.leave() // there is no time left to ask anything
		return false
	case <-ctx.Done():
		return false
	}
}

func (t *turns) leave() { <-t.places }

// made is a record on its way to the disk.
type made struct {
	record    *supervisor.FlightRecord
	key, name string
}

// New returns a Recorder with the records that Dir has. A directory that cannot be used is told as
// RecorderFailed.
func New(c Config) *Recorder {
	r := &Recorder{config: c, queue: make(chan *made, queueSize)}
	r.stops.places, r.crashes.places = make(chan struct{}, stopsAtOnce), make(chan struct{}, crashesAtOnce)
	var err error
	if r.store, err = openStore(c.Dir, time.Now()); err != nil {
		r.disk.tell(c.Journal, err)
	}
	return r
}

// Run writes the records until ctx ends, and those that wait for it then.
func (r *Recorder) Run(ctx context.Context) error {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		select {
		case m := <-r.queue:
			r.keep(m)
		case <-tidy.C:
			r.store.tidy(time.Now())
		case <-ctx.Done():
			r.asking.Wait()
			for {
				select {
				case m := <-r.queue:
					r.keep(m)
				default:
					return nil
				}
			}
		}
	}
}

func (r *Recorder) keep(m *made) {
	if err := r.store.add(m, time.Now()); err != nil {
		r.disk.tell(r.config.Journal, err)
		return
	}
	r.disk.over()
}

var (
	errCrowded = errors.New("so many containers fail at once that not all are recorded")
	errSlow    = errors.New("the disk is too slow for all flight records: some are lost")
)

// Record implements supervisor.Recorder.
func (r *Recorder) Record(ctx context.Context, o *supervisor.Occasion) {
	turns := &r.stops
	if o.Cause == core.ByExit {
		turns = &r.crashes
	}
	if !turns.take(ctx) {
		r.crowded.tell(r.config.Journal, errCrowded)
		return
	}
	defer turns.leave()
	m := &made{record: r.gather(ctx, o), key: keyOf(o.View), name: hashOf(o.View.Container.Name)}
	select {
	case r.queue <- m:
	default:
		r.slow.tell(r.config.Journal, errSlow)
	}
}

// Find returns what is kept of a container, newest first: of v, or, where that is nil, of one of that
// name that is gone.
func (r *Recorder) Find(v *core.View, name string) []supervisor.RecordInfo {
	if v != nil {
		return r.store.ofKey(keyOf(v))
	}
	return r.store.ofName(hashOf(name))
}

// Read returns a record. One that is damaged is dropped.
func (r *Recorder) Read(info supervisor.RecordInfo) (*supervisor.FlightRecord, error) {
	return r.store.read(info.File)
}

// trouble is told once, and again after tellEvery or when it was over.
type trouble struct {
	mu     sync.Mutex
	toldAt time.Time // zero: it is over
}

func (t *trouble) tell(j supervisor.Journal, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.toldAt.IsZero() && now.Sub(t.toldAt) < tellEvery {
		return
	}
	t.toldAt = now
	j.Record(core.Event{Time: now, Reason: core.EventRecorderFailed, Message: fmt.Sprintf("healthd supervises as before, but flight records may be missing: %v", err)})
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.toldAt = time.Time{}
}
