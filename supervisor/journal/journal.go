// Package journal keeps the events and the state that the next daemon needs: a Memory of
// each container, and how far each runtime's events were processed. It logs each event
// once, and any number of readers can follow the events.
//
//	supervisor ── Record, Remember, Forget, SetSeen ──▶ in memory: the history, pendingWrites
//	                                                       │             │
//	api, log   ◀── Events, After, Log ─────────────────────┘             │ Run: one transaction for
//	                                                                     ▼ all that is pending
//	next daemon ◀── Open: Memories, Boot, Seen, Events ────────────── journal.db (bbolt)
//
// The supervisor never waits for the disk, except for the channel that Remember returns.
// When journal.db cannot be written, the journal goes on in memory and records
// JournalFailed. When it cannot be read, Open renames it, begins a new one and records
// JournalDamaged: healthd always supervises.
//
// What is an event, and what a Memory holds, is decided by package supervisor.
// go.etcd.io/bbolt provides the file format and transactions that survive a crash.
package journal

import (
	"slices"
	"sync"
	"time"

	"healthd/supervisor/core"
)

// Size is how many events are kept at most: fewer when they are long.
const Size = 10_000

// The reasons of the journal's own events.
const (
	EventJournalFailed  = "JournalFailed"  // it cannot be written: healthd's state is in memory only
	EventJournalBack    = "JournalBack"    // it can be written again, and the present state is in it
	EventJournalDamaged = "JournalDamaged" // a record or the file could not be read, or a record cannot be written
)

// Journal holds the newest events and a Memory of each container. Its events take 13 MB at
// most, however many come: see history for which are dropped. All readers share the history:
// one that falls far behind misses what was dropped meanwhile. Record never waits for a
// reader or the disk. All methods may be called from any goroutine, except Run and Close.
type Journal struct {
	mu      sync.Mutex
	history *history
	folds   folds
	last    uint64        // number of the newest event; the first one ever is 1
	more    chan struct{} // closed with the next event; nil when nobody waits
	pendingWrites

	// What Open read. It does not change.
	openedSeq uint64            // number of the newest event in the file
	boots     map[string]string // by runtime

	file // used by Open, Run and Close only, one after another
}

// New returns an empty journal in memory, without a file.
func New() *Journal {
	return &Journal{history: newHistory(), folds: folds{repeats: map[foldKey]*repeats{}}, pendingWrites: pendingWrites{seen: map[string]time.Time{}}}
}

// Record adds an event, and cuts texts that are too long. It never blocks. Unless the disk
// fails, the event is on it within a second. One that repeats often is folded, see foldAfter:
// Events has its count at once, After and the disk within foldEvery.
func (j *Journal) Record(ev core.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.folds.holdBack(shorten(ev), time.Now()) {
		j.record(ev)
		return
	}
	if j.folds.timer == nil {
		j.folds.timer = time.AfterFunc(foldEvery, j.settleFolds)
	}
}

// settleFolds adds the events that stand for what was held back.
func (j *Journal) settleFolds() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.settleFoldsLocked()
}

// settleFoldsLocked is settleFolds. It needs mu.
func (j *Journal) settleFoldsLocked() {
	if j.folds.timer != nil {
		j.folds.timer.Stop()
		j.folds.timer = nil
	}
	for _, ev := range j.folds.settle() {
		j.record(ev)
	}
}

// record needs mu.
func (j *Journal) record(ev core.Event) {
	j.last++
	j.history.add(j.last, shorten(ev))
	for j.history.overfull() {
		j.noteDropped(j.history.drop())
	}
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
	j.requestWrite(eventWriteDelay)
}

// recordOwnEvent records an event about the journal itself. It needs mu.
func (j *Journal) recordOwnEvent(reason, message string) {
	j.record(core.Event{Time: time.Now(), Reason: reason, Message: message})
}

// Events returns the events of one container, or all when container is empty, that are
// not older than since. The oldest comes first; one that stands for repeats is where the newest of them was.
func (j *Journal) Events(container string, since time.Time) []core.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := []core.Event{}
	if container == "" { // growing to this takes several times the memory
		events = make([]core.Event, 0, j.history.all.Len())
	}
	for k := range j.history.of(container) {
		if !k.Time.Before(since) {
			events = appendInOrder(events, k.Event)
		}
	}
	for _, ev := range j.folds.pending(container) {
		if !ev.Time.Before(since) {
			events = appendInOrder(events, ev)
		}
	}
	return events
}

// appendInOrder appends an event. One that stands for repeats comes into the history later than it happened. Of the
// others the order in which they came counts, whatever the clock said.
func appendInOrder(events []core.Event, ev core.Event) []core.Event {
	place := len(events)
	for ev.Count > 0 && place > 0 && events[place-1].Time.After(ev.Time) {
		place--
	}
	return slices.Insert(events, place, ev)
}

// Up says whether what is recorded reaches the disk: there is a file, and the newest write has not
// failed.
func (j *Journal) Up() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.persistent && !j.failing
}

// Problem returns what keeps the journal from being written, and what to do; empty: nothing, or it
// has no directory.
func (j *Journal) Problem() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dir == "" || j.persistent && !j.failing {
		return ""
	}
	return j.problem
}

// Last returns the number of the newest event; 0 when there was none. After(Last())
// waits for the next one.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// maxAfter is how many events After returns at most: a slow reader keeps its copies until it has
// read them, and there may be many such readers.
const maxAfter = 100

// After returns the oldest kept events after the one with number seq, oldest first, with their numbers, the number
// up to which these are all, and a channel that is closed when there are more. When
// last - len(events) is greater than seq, that many less seq were missed. Numbers
// continue from one daemon to the next.
func (j *Journal) After(seq uint64) (events []core.Event, last uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.history.firstAfter(seq, maxAfter)
	for _, k := range kept {
		ev := k.Event
		ev.Number = k.number
		events = append(events, ev)
	}
	if len(kept) == maxAfter {
		return events, kept[maxAfter-1].number, closedChannel()
	}
	if j.more == nil {
		j.more = make(chan struct{})
	}
	return events, j.last, j.more
}
