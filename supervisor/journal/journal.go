// Package journal keeps what healthd knows beyond its own end: the history and
// what must be known again of each container. It logs each event once and lets any
// number of readers follow them. What is an event and what must be known again is
// the supervisor's to say.
//
// All of it is in memory. A journal with a directory writes it behind, in
// transactions, to the file journal.db there, and reads it back when the next
// daemon opens it. No trouble with that file keeps healthd from supervising: the
// journal goes on in memory and says so in an event.
//
// go.etcd.io/bbolt saves the file format, and what makes a transaction whole or not
// there at all after a crash.
package journal

import (
	"strings"
	"sync"
	"time"

	"healthd/supervisor/core"
)

// Size is how many events are kept.
const Size = 10_000

// maxText bounds each text of an event; those that healthd makes are shorter.
const maxText = 32 << 10

// The reasons of the journal's own events.
const (
	EventJournalFailed  = "JournalFailed"  // it cannot be written: what is known is in memory only
	EventJournalBack    = "JournalBack"    // it is written again, with all that still matters
	EventJournalDamaged = "JournalDamaged" // something in it could not be read, or never can be written
)

// Journal is the newest Size events and the memory of each container. The events
// are also the buffer of every reader: one that falls more than Size behind misses
// the oldest of them, and no reader and no disk ever makes Record wait.
type Journal struct {
	mu   sync.Mutex
	ring []core.Event // grows up to Size; number base+1 came to ring[0] first
	base uint64
	last uint64        // number of the newest event; the first one ever is 1
	more chan struct{} // closed with the next event; nil when nobody waits
	behind

	// What Open found. It does not change.
	opened   uint64 // number of the newest event then
	boot     string
	memories []core.Memory

	file // of Open, Run and Close, one after another
}

// New returns an empty journal that is kept in memory only.
func New() *Journal {
	return &Journal{behind: behind{seen: map[string]time.Time{}}}
}

// Record takes one event. It never blocks. The event is on the disk within a
// fraction of a second after, if nothing fails.
func (j *Journal) Record(ev core.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.record(ev)
}

// record needs mu.
func (j *Journal) record(ev core.Event) {
	ev.Container, ev.Reason, ev.Message = cut(ev.Container), cut(ev.Reason), cut(ev.Message)
	j.last++
	if at := (j.last - j.base - 1) % Size; at < uint64(len(j.ring)) {
		j.ring[at] = ev
	} else {
		j.ring = append(j.ring, ev)
	}
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
	j.want(company)
}

// tell records an event of the journal's own. It needs mu.
func (j *Journal) tell(reason, message string) {
	j.record(core.Event{Time: time.Now(), Reason: reason, Message: message})
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// Events returns the events of one container, or of all when container is empty,
// that are not older than since, oldest first.
func (j *Journal) Events(container string, since time.Time) []core.Event {
	all, _, _ := j.After(0)
	events := []core.Event{}
	for _, ev := range all {
		if (container == "" || ev.Container == container) && !ev.Time.Before(since) {
			events = append(events, ev)
		}
	}
	return events
}

// Last returns the number of the newest event: After(Last()) waits for what
// comes next.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// After returns the events that came after the one numbered seq and are still
// kept, oldest first, the number of the newest one, and a channel that is closed
// as soon as there are more. The newest event's number less the count of events
// is above seq when some were missed. Numbers go on from one daemon to the next.
func (j *Journal) After(seq uint64) (events []core.Event, last uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.more == nil {
		j.more = make(chan struct{})
	}
	return j.after(seq), j.last, j.more
}

// after needs mu.
func (j *Journal) after(seq uint64) []core.Event {
	first := max(seq, j.last-uint64(len(j.ring))) + 1
	if first > j.last {
		return nil
	}
	events := make([]core.Event, 0, j.last-first+1)
	for n := first; n <= j.last; n++ {
		events = append(events, j.ring[(n-j.base-1)%Size])
	}
	return events
}
