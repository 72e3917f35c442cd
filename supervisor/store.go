package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// Store keeps memories across daemons. The loop calls its methods: none may block.
type Store interface {
	// Remember replaces what is stored of the container m.ID. The channel is closed when
	// m is on the disk, or when the Store has given up writing it. Nobody changes m any more: the
	// loop and the Store share it.
	Remember(m *core.Memory) <-chan struct{}
	// Forget drops what is stored of the container of that ID.
	Forget(id string)
	// SetSeen stores that Remember was called for all that follows from the runtime's
	// events up to the one of that time. The next daemon asks for the events after it. A
	// later call may have an earlier time: clocks are set back.
	SetSeen(runtime string, at time.Time)
}

// noStore is the Store when Config.Store is nil.
type noStore struct{}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (noStore) Remember(*core.Memory) <-chan struct{} { return closedChannel }

func (noStore) Forget(string) {}

func (noStore) SetSeen(string, time.Time) {}

// Journal keeps the history of events.
type Journal interface {
	// Record adds an event. The loop calls it: it must not block.
	Record(core.Event)
}
