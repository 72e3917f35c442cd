package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"healthd/supervisor/core"
)

// Memories returns what the previous daemon kept of each container, sorted by ID. It is for the
// start: Remember and Forget change what it returns.
func (j *Journal) Memories() []*core.Memory {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.current), func(a, b *core.Memory) int { return strings.Compare(a.ID, b.ID) })
}

// Boot returns the ID of the host's boot at the previous daemon's BootTaken for a runtime. It differs
// from the present one when the host was rebooted since. Empty means unknown.
func (j *Journal) Boot(runtime string) string { return cmp.Or(j.boots[runtime], j.boots[allRuntimes]) }

// HasBoots says that an earlier daemon has called BootTaken.
func (j *Journal) HasBoots() bool { return len(j.boots) > 0 }

// BootTaken says that everything that follows from a reboot of the host for the containers of a runtime was passed to
// Remember. Until then the next daemon gets the earlier boot's ID from Boot. It never
// blocks.
func (j *Journal) BootTaken(runtime string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handledBoots[runtime] == j.currentBoot || !j.persistent {
		return
	}
	j.handledBoots[runtime], j.metaDirty = j.currentBoot, true
	j.requestWrite(0) // happens once in a daemon's life
}

// Remember keeps m instead of the earlier Memory of the same container. It never blocks. Nobody may
// change m after it.
//
// The channel is closed when m, or a newer Memory of the container, is on the disk and
// survives a power cut. It is also closed when the write failed, or took longer than
// some seconds; Run then tries again, with the newest Memory, until it ends. It is closed
// at once while the journal cannot be written or has no file. Nothing is written before
// Run is called; when Run or Close ends, all channels are closed.
func (j *Journal) Remember(m *core.Memory) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.persistent {
		return closedChannel()
	}
	j.current[m.ID] = m
	j.dirtyIDs[m.ID] = struct{}{}
	j.requestWrite(0)
	if j.failing {
		return closedChannel()
	}
	if j.settled == nil {
		j.settled = make(chan struct{})
	}
	return j.settled
}

// stamp is the present moment.
func (j *Journal) stamp() core.Stamp {
	s := core.Stamp{Wall: time.Now(), Boot: j.currentBoot}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		s.Monotonic = time.Duration(now.Nano())
	}
	return s
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Forget drops the Memory of the container with that ID. It never blocks.
func (j *Journal) Forget(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.persistent {
		return
	}
	delete(j.current, id)
	if _, stored := j.storedIDs[id]; !stored {
		delete(j.dirtyIDs, id) // it never got to the disk
		return
	}
	j.dirtyIDs[id] = struct{}{}
	j.requestWrite(eventWriteDelay)
}

// SetSeen keeps t as the time of the newest event of the runtime that was processed: the
// newest in their order, because the engine's clock may be set back. It never blocks. t gets to the disk together with
// earlier calls of Remember, or after them: call it after the Remember for what the
// event changed, and no event counts as seen whose consequences are lost.
func (j *Journal) SetSeen(runtime string, t time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.Equal(j.seen[runtime]) {
		return
	}
	j.seen[runtime] = t
	j.metaDirty = true
	j.requestWrite(seenWriteDelay)
}

// Seen returns the time of the newest event of the runtime that was processed, by this
// daemon or an earlier one; zero when there was no event.
func (j *Journal) Seen(runtime string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen[runtime]
}
