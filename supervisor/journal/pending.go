package journal

import (
	"time"

	"healthd/supervisor/core"
)

// How long what is new may wait for more to share its transaction. A memory that
// somebody waits for does not wait at all.
const (
	company = 200 * time.Millisecond // of an event
	lazy    = time.Second            // of the time of an engine's event
)

// How long until a failed transaction is tried again: doubled each time.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// behind is what the disk does not have yet. Its size is bounded by the number of
// containers; events are taken from the ring. Journal.mu guards it.
type behind struct {
	keeping bool                   // there is a disk, and a Run that will write to it
	kept    map[string]core.Memory // all that is to be on the disk
	stored  map[string]struct{}    // the IDs of what is there
	dirty   map[string]struct{}    // the IDs of which the two may differ
	written uint64                 // number of the newest event there
	dropped uint64                 // events that left the ring before they got there
	seen    map[string]time.Time   // by runtime
	taken   string                 // boot of the host that was taken in
	meta    bool                   // taken and seen are not there
	junk    []record               // could not be read, is to be deleted

	due  time.Time     // of the next transaction; zero when nothing is behind
	wake chan struct{} // tells Run of a new due
	done chan struct{} // closed when what was remembered is settled; nil when nobody waits

	failing   bool // told, and not yet written again
	backoff   time.Duration
	notBefore time.Time
}

// batch is the content of one transaction.
type batch struct {
	put     []core.Memory
	forget  []string
	events  []core.Event
	last    uint64 // number of the last of events
	meta    bool
	boot    string
	seen    map[string]time.Time
	junk    []record
	waiting []chan struct{}
}

// want asks for a transaction in d at the latest. It needs mu.
func (j *Journal) want(d time.Duration) {
	if !j.keeping {
		return
	}
	at := time.Now().Add(d)
	if !j.due.IsZero() && !at.Before(j.due) {
		return
	}
	j.due = at
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// wait says how long it is until the next transaction, if there is to be one.
func (j *Journal) wait() (d time.Duration, due bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due.IsZero() {
		return 0, false
	}
	at := j.due
	if j.failing && at.Before(j.notBefore) {
		at = j.notBefore
	}
	return time.Until(at), true
}

// take returns all that is behind, or nil when nothing is.
func (j *Journal) take() *batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due.IsZero() {
		return nil
	}
	return j.takeAll()
}

// takeAll needs mu.
func (j *Journal) takeAll() *batch {
	b := &batch{last: j.last, meta: j.meta, boot: j.taken, seen: map[string]time.Time{}, junk: j.junk}
	for id := range j.dirty {
		if m, kept := j.kept[id]; kept {
			b.put = append(b.put, m)
		} else {
			b.forget = append(b.forget, id)
		}
	}
	if oldest := j.last - uint64(len(j.ring)); j.written < oldest {
		j.dropped += oldest - j.written
		j.written = oldest
	}
	b.events = j.after(j.written)
	for name, t := range j.seen {
		b.seen[name] = t
	}
	if j.done != nil {
		b.waiting = append(b.waiting, j.done)
	}
	clear(j.dirty)
	j.meta, j.done, j.due = false, nil, time.Time{}
	return b
}

// succeeded notes that b is on the disk.
func (j *Journal) succeeded(b *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range b.put {
		j.stored[m.ID] = struct{}{}
		if _, kept := j.kept[m.ID]; !kept { // forgotten meanwhile
			j.dirty[m.ID] = struct{}{}
			j.want(company)
		}
	}
	for _, id := range b.forget {
		delete(j.stored, id)
	}
	j.written, j.junk = max(j.written, b.last), nil
	b.answer()
	if j.failing {
		j.failing = false
		j.tell(EventJournalBack, back(j.dropped))
		j.dropped = 0
	}
}

// failed puts b back to what is behind, and answers everybody who waits.
func (j *Journal) failed(b *batch, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range b.put {
		if j.isBehind(m.ID) {
			j.dirty[m.ID] = struct{}{}
		}
	}
	for _, id := range b.forget {
		if j.isBehind(id) {
			j.dirty[id] = struct{}{}
		}
	}
	j.meta = j.meta || b.meta
	j.fail(b, why)
	j.backoff = min(max(2*j.backoff, firstRetry), lastRetry)
	j.notBefore = time.Now().Add(j.backoff)
	j.want(0)
}

func (j *Journal) isBehind(id string) bool {
	_, kept := j.kept[id]
	_, stored := j.stored[id]
	return kept || stored
}

// fail says so once and keeps nobody waiting. It needs mu.
func (j *Journal) fail(b *batch, why string) {
	b.answer()
	if j.done != nil {
		close(j.done)
		j.done = nil
	}
	if !j.failing {
		j.failing, j.backoff = true, 0
		j.tell(EventJournalFailed, why)
	}
}

// answer closes the channels of those who wait for b. It needs mu.
func (b *batch) answer() {
	for _, done := range b.waiting {
		close(done)
	}
	b.waiting = nil
}
