// Package journal keeps the newest events of the history in memory, logs each of
// them once and lets any number of readers follow them. What is an event is the
// supervisor's to say; nothing is kept over a restart of the daemon.
package journal

import (
	"sync"
	"time"

	"healthd/supervisor"
)

// Size is how many events are kept.
const Size = 1000

// Journal is a ring of the newest events. The ring is also the buffer of every
// reader: one that falls more than Size events behind misses the oldest of them,
// and no reader ever makes Record wait.
type Journal struct {
	mu   sync.Mutex
	ring [Size]supervisor.Event
	last uint64        // number of the newest event; the first one is 1
	more chan struct{} // closed with the next event; nil when nobody waits
}

// New returns an empty journal.
func New() *Journal { return &Journal{} }

// Record takes one event. It never blocks.
func (j *Journal) Record(ev supervisor.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	j.ring[j.last%Size] = ev
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
}

// Events returns the events of one container, or of all when container is empty,
// that are not older than since, oldest first.
func (j *Journal) Events(container string, since time.Time) []supervisor.Event {
	all, _, _ := j.After(0)
	events := []supervisor.Event{}
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
// is above seq when some were missed.
func (j *Journal) After(seq uint64) (events []supervisor.Event, last uint64, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.more == nil {
		j.more = make(chan struct{})
	}
	first := seq + 1
	if j.last > Size {
		first = max(first, j.last-Size+1)
	}
	for n := first; n <= j.last; n++ {
		events = append(events, j.ring[n%Size])
	}
	return events, j.last, j.more
}
