package journal

import (
	"maps"
	"time"

	"healthd/supervisor/core"
)

// How long a change waits for others, to share a transaction with them. A Memory does
// not wait, because the supervisor may wait for it.
const (
	eventWriteDelay = 200 * time.Millisecond // an event, or a Memory to delete
	seenWriteDelay  = time.Second            // SetSeen
)

// How long until a failed transaction is tried again; it doubles each time.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// pendingWrites is what the disk does not have yet. Its size is bounded by the number of
// containers and the size of the history, where the events stay. Journal.mu guards it.
type pendingWrites struct {
	persistent    bool                    // there is a file, and Run has not ended
	current       map[string]*core.Memory // what the file is to hold, by container ID; nobody changes one
	storedIDs     map[string]struct{}     // of the Memories in the file
	dirtyIDs      map[string]struct{}     // of Memories to write or delete
	writtenSeq    uint64                  // number of the newest event in the file
	takenSeq      uint64                  // number of the newest event in the file or in a batch
	outdated      []uint64                // numbers up to takenSeq of events that the history has dropped
	missingEvents uint64                  // events that it dropped unwritten since the last transaction
	seen          map[string]time.Time    // by runtime
	handledBoots  map[string]string       // the boot of BootTaken, by runtime
	metaDirty     bool                    // seen or handledBoots is to be written
	unreadable    []recordKey             // records to delete

	due     time.Time     // of the next transaction; zero when nothing is pending
	wake    chan struct{} // tells Run that due changed
	settled chan struct{} // closed when the pending Memories were written or failed; nil when nobody waits

	failing bool   // reported, and not written since
	problem string // what was reported last; empty once it is written again
	backoff time.Duration
	retryAt time.Time
}

// batch is the content of one transaction.
type batch struct {
	memories   []*core.Memory
	forgotten  []string
	events     []*kept
	last       uint64   // number of the last of events
	outdated   []uint64 // numbers of events to delete
	metaDirty  bool
	boots      map[string]string
	seen       map[string]time.Time
	unreadable []recordKey
	waiters    []chan struct{}
}

// requestWrite makes Run write within d. It needs mu.
func (j *Journal) requestWrite(d time.Duration) {
	if !j.persistent {
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

// untilNextWrite returns the time until the next transaction, and false when none is due.
func (j *Journal) untilNextWrite() (d time.Duration, due bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due.IsZero() {
		return 0, false
	}
	at := j.due
	if j.failing && at.Before(j.retryAt) {
		at = j.retryAt
	}
	return time.Until(at), true
}

// takePending returns all that is pending, or nil when nothing is.
func (j *Journal) takePending() *batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due.IsZero() {
		return nil
	}
	return j.takePendingLocked()
}

// takePendingLocked is takePending, even when nothing is pending. It needs mu.
func (j *Journal) takePendingLocked() *batch {
	b := &batch{
		events: j.history.after(j.writtenSeq), last: j.last, outdated: j.outdated,
		metaDirty: j.metaDirty, boots: maps.Clone(j.handledBoots), seen: map[string]time.Time{}, unreadable: j.unreadable,
	}
	j.takenSeq, j.outdated = j.last, nil
	for id := range j.dirtyIDs {
		if m, kept := j.current[id]; kept {
			b.memories = append(b.memories, m)
		} else {
			b.forgotten = append(b.forgotten, id)
		}
	}
	for name, t := range j.seen {
		b.seen[name] = t
	}
	if j.settled != nil {
		b.waiters = append(b.waiters, j.settled)
	}
	clear(j.dirtyIDs)
	j.metaDirty, j.settled, j.due = false, nil, time.Time{}
	return b
}

// noteDropped has an event that the history has dropped deleted from the file, too. It needs
// mu.
func (j *Journal) noteDropped(number uint64) {
	switch {
	case !j.persistent:
	case number <= j.takenSeq:
		j.outdated = append(j.outdated, number)
	default:
		j.missingEvents++
	}
}

// writeSucceeded notes that b is on the disk.
func (j *Journal) writeSucceeded(b *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range b.memories {
		j.storedIDs[m.ID] = struct{}{}
		if _, kept := j.current[m.ID]; !kept { // forgotten meanwhile
			j.dirtyIDs[m.ID] = struct{}{}
			j.requestWrite(eventWriteDelay)
		}
	}
	for _, id := range b.forgotten {
		delete(j.storedIDs, id)
	}
	j.writtenSeq, j.unreadable = max(j.writtenSeq, b.last), nil
	b.notifyWaiters()
	if j.failing {
		j.failing, j.problem = false, ""
		j.recordOwnEvent(EventJournalBack, backMessage(j.missingEvents))
	}
	j.missingEvents = 0
}

// writeFailed makes the content of b pending again, and releases all waiters.
func (j *Journal) writeFailed(b *batch, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range b.memories {
		if j.needsWrite(m.ID) {
			j.dirtyIDs[m.ID] = struct{}{}
		}
	}
	for _, id := range b.forgotten {
		if j.needsWrite(id) {
			j.dirtyIDs[id] = struct{}{}
		}
	}
	j.metaDirty = j.metaDirty || b.metaDirty
	j.takenSeq = j.writtenSeq
	j.keepOutdated(append(b.outdated, j.outdated...))
	j.reportFailure(b, why)
	j.backoff = min(max(2*j.backoff, retryMin), retryMax)
	j.retryAt = time.Now().Add(j.backoff)
	j.requestWrite(0)
}

// keepOutdated keeps, of these events that the history has dropped, those that are in the
// file. It needs mu.
func (j *Journal) keepOutdated(numbers []uint64) {
	j.outdated = nil
	for _, number := range numbers {
		if number <= j.writtenSeq {
			j.outdated = append(j.outdated, number)
		} else {
			j.missingEvents++
		}
	}
}

func (j *Journal) needsWrite(id string) bool {
	_, kept := j.current[id]
	_, stored := j.storedIDs[id]
	return kept || stored
}

// reportFailure records JournalFailed once, and releases all waiters. It needs mu.
func (j *Journal) reportFailure(b *batch, why string) {
	b.notifyWaiters()
	if j.settled != nil {
		close(j.settled)
		j.settled = nil
	}
	if !j.failing {
		j.failing, j.backoff, j.problem = true, 0, why
		j.recordOwnEvent(EventJournalFailed, why)
	}
}

// notifyWaiters closes the channels of those who wait for b. The caller holds Journal.mu.
func (b *batch) notifyWaiters() {
	for _, done := range b.waiters {
		close(done)
	}
	b.waiters = nil
}
