package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// Store keeps memories over the end of the daemon.
type Store interface {
	// Remember keeps m in place of what was kept of the same container. It must not
	// block: the loop calls it. The channel is closed when m is on the disk, or when
	// it is certain that it cannot be put there.
	Remember(m core.Memory) <-chan struct{}
	// Forget drops what is kept of the container of that ID. It must not block.
	Forget(id string)
	// SetSeen notes that everything which followed from the runtime's events up to
	// that moment was remembered. It must not block.
	SetSeen(runtime string, at time.Time)
}

// noStore is the Store of a supervisor that has none.
type noStore struct{}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (noStore) Remember(core.Memory) <-chan struct{} { return closedChannel }

func (noStore) Forget(string) {}

func (noStore) SetSeen(string, time.Time) {}

// Journal keeps the history.
type Journal interface {
	// Record takes one event. It must not block: the loop calls it.
	Record(core.Event)
}
