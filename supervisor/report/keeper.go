package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// The reasons of the keeper's own events.
const (
	EventReportFailed  = "ReportFailed"  // the file cannot be written: the report is in memory only
	EventReportBack    = "ReportBack"    // it can be written again
	EventReportDamaged = "ReportDamaged" // it could not be read, and a new one is begun
)

const (
	leastPause = time.Second      // between two looks, however much changes
	mostPause  = 10 * time.Second // between two looks, if nothing is told to have changed
	savePause  = time.Minute      // what a kill may cost
)

// Journal is what the report needs of the journal.
type Journal interface {
	// Record adds an event. It never blocks.
	Record(core.Event)
	// Last returns the number of the newest event.
	Last() uint64
	// After returns the first events after a number, the number up to which these are all, and
	// a channel that is closed when there are more.
	After(seq uint64) ([]core.Event, uint64, <-chan struct{})
}

// Config says what a Keeper watches, and where it keeps what it saw.
type Config struct {
	Dir     string // has the file; empty: in memory only
	Board   *supervisor.Board
	Journal Journal
}

// Keeper keeps the report of all services: at most 1,000 of them, 8 days by the hour and 90 days by the day.
// All methods may be called from any goroutine.
type Keeper struct {
	dir     string
	board   *supervisor.Board
	journal Journal
	started time.Time
	failing bool // the file could not be written, which was told; of the one who writes it

	mu     sync.Mutex
	ledger *ledger
	seen   sight // of the newest look; the next one writes over it
}

// Open returns the keeper, with what an earlier one has left in the directory. A file that cannot be read is set
// aside, with an event. The directory belongs to the one who holds the lock of the journal there.
func Open(c Config) *Keeper {
	k := &Keeper{dir: c.Dir, board: c.Board, journal: c.Journal, started: time.Now(), ledger: newLedger()}
	if c.Dir == "" {
		return k
	}
	var told string
	var err error
	k.ledger, told, err = load(c.Dir)
	switch {
	case err != nil: // writing would destroy what cannot be read now
		k.dir = ""
		k.tell(EventReportFailed, fmt.Sprintf("cannot read the report in %s: %v: it is in memory only", c.Dir, err))
	case told != "":
		k.tell(EventReportDamaged, told)
	}
	return k
}

func (k *Keeper) tell(reason, message string) {
	k.journal.Record(core.Event{Time: time.Now(), Reason: reason, Message: message})
}

// Run watches the board, and writes the file once a minute and at its end. It returns nil when ctx ends and the file
// is written. While the disk does not answer, it does not return.
func (k *Keeper) Run(ctx context.Context) error {
	var watching, saving sync.WaitGroup
	watching.Go(func() { k.watch(ctx) })
	saving.Go(func() { k.keepSaved(ctx) })
	watching.Wait()
	saving.Wait()
	k.look()
	k.save()
	return nil
}

func (k *Keeper) watch(ctx context.Context) {
	pause, longest := time.NewTimer(leastPause), time.NewTimer(mostPause)
	defer pause.Stop()
	defer longest.Stop()
	read := k.journal.Last()
	for {
		changed := k.board.Changed()
		k.look()
		more := k.readEvents(&read)
		pause.Reset(leastPause)
		longest.Reset(mostPause)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-more:
		case <-longest.C:
		}
	}
}

// look has the ledger take in what the board shows.
func (k *Keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now() // with the lock: no look may come before an older one
	k.seen.read(k.board, now)
	k.ledger.look(&k.seen, moment{wall: now.Round(0), mono: now.Sub(k.started)})
}

// readEvents takes in the events after a number, and returns a channel that is closed when there are more.
func (k *Keeper) readEvents(read *uint64) (more <-chan struct{}) {
	for {
		events, last, next := k.journal.After(*read)
		if *read = last; len(events) == 0 {
			return next
		}
		k.mu.Lock()
		for i := range events {
			if ev := &events[i]; ev.Detected > 0 {
				k.ledger.detected(strings.ToValidUTF8(ev.Service, "\uFFFD"), ev.Detected, ev.Time)
			}
		}
		k.mu.Unlock()
	}
}

func (k *Keeper) keepSaved(ctx context.Context) {
	every := time.NewTicker(savePause)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			k.save()
		}
	}
}

// save writes the file. It tells of the first failure, and of the first success after it.
func (k *Keeper) save() {
	if k.dir == "" {
		return
	}
	k.mu.Lock()
	h, names := head{version, k.ledger.began}, k.ledger.names()
	k.mu.Unlock()
	err := replace(k.dir, func(w io.Writer) error { return write(w, h, k.records(names)) })
	switch {
	case err != nil && !k.failing:
		k.failing = true
		k.tell(EventReportFailed, fmt.Sprintf("cannot write the report in %s: %v: what it has is lost when healthd ends", k.dir, err))
	case err == nil && k.failing:
		k.failing = false
		k.tell(EventReportBack, "the report is written again")
	}
}

// records yields the records of services, one at a time: nobody waits for the disk.
func (k *Keeper) records(names []string) func(func(*record) bool) {
	return func(yield func(*record) bool) {
		for _, name := range names {
			k.mu.Lock()
			s := k.ledger.services[name]
			var r record
			if s != nil {
				r = s.record()
			}
			k.mu.Unlock()
			if s != nil && !yield(&r) {
				return
			}
		}
	}
}

// Report returns what was observed since a time, of one service, or of all if its name is empty. The name's
// project may be left out, as in Board.FindService; a service may be gone from the board. The error is
// supervisor.ErrUnknownService or a *supervisor.AmbiguousServiceError.
func (k *Keeper) Report(name string, since time.Time) (Report, error) {
	k.look() // up to this moment
	if name == "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.ledger.report(func(string) bool { return true }, since, time.Now()), nil
	}
	full, _, err := k.board.FindService(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, supervisor.ErrUnknownService) {
		full, err = k.ledger.find(name)
	}
	if err != nil {
		return Report{}, err
	}
	return k.ledger.report(func(name string) bool { return name == full }, since, time.Now()), nil
}

// find returns the full name of a service that the ledger has.
func (l *ledger) find(name string) (string, error) {
	if l.services[name] != nil {
		return name, nil
	}
	var candidates []string
	for _, full := range l.names() {
		if full[strings.LastIndexByte(full, '/')+1:] == name {
			candidates = append(candidates, full)
		}
	}
	switch len(candidates) {
	case 0:
		return "", supervisor.ErrUnknownService
	case 1:
		return candidates[0], nil
	}
	return "", &supervisor.AmbiguousServiceError{Candidates: candidates}
}
