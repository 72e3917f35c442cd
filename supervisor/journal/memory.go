package journal

import (
	"slices"
	"time"

	"healthd/supervisor/core"
)

// Memories returns what the daemon before has kept of each container, by ID.
func (j *Journal) Memories() []core.Memory { return slices.Clone(j.memories) }

// Boot returns the ID of the host's newest boot that a daemon before has taken in. It
// is empty when that is not known.
func (j *Journal) Boot() string { return j.boot }

// BootTaken notes that all which follows from the host's present boot was remembered.
// Until then the next daemon is told of the one before. It never blocks.
func (j *Journal) BootTaken() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.taken == j.bootNow {
		return
	}
	j.taken, j.meta = j.bootNow, true
	j.want(0) // once in a daemon's life
}

// Remember keeps m in place of what was kept of the same container. It never
// blocks. The channel is closed when m, or a newer one of the same container, is
// on the disk and would outlive a loss of power; or when it cannot be put there
// now: then that is tried again, with whatever is newest, until Run ends. It is
// always closed: at once in a journal that is in memory only or cannot be written
// at present, after some seconds when the disk does not answer, and when Run or
// Close has ended. Nothing is written before Run is called.
func (j *Journal) Remember(m core.Memory) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.keeping {
		return answered()
	}
	j.kept[m.ID] = m
	j.dirty[m.ID] = struct{}{}
	j.want(0)
	if j.failing {
		return answered()
	}
	if j.done == nil {
		j.done = make(chan struct{})
	}
	return j.done
}

func answered() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Forget drops what is kept of the container of that ID. It never blocks.
func (j *Journal) Forget(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.keeping {
		return
	}
	delete(j.kept, id)
	if _, stored := j.stored[id]; !stored {
		delete(j.dirty, id) // nothing to delete: what never got there leaves no trace
		return
	}
	j.dirty[id] = struct{}{}
	j.want(company)
}

// SetSeen keeps t as the time of the newest event that was heard of a runtime; an
// older time than the one kept is ignored. It never blocks, and is on the disk
// with what was told before, or later: call it after the Remember of whatever
// the event has changed, and no event is taken for seen that is not remembered.
func (j *Journal) SetSeen(runtime string, t time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !t.After(j.seen[runtime]) {
		return
	}
	j.seen[runtime] = t
	j.meta = true
	j.want(lazy)
}

// Seen returns the time of the newest event that was heard of a runtime, by this
// daemon or an earlier one; zero when there was none.
func (j *Journal) Seen(runtime string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen[runtime]
}
