package supervisor

import "sync"

// Publisher tells load balancers what the Board shows, and knows what they report. The
// loop calls its methods: none may block.
type Publisher interface {
	// Changed tells that the Board shows a change which matters to load balancers: a
	// container is new or gone, its readiness, run, address, name or spec has changed, or
	// its drain has begun or ended. id is the container's; it is empty when all containers of
	// a runtime are known now.
	Changed(id string)
	// LastUp returns the backends in which the container of that ID is the last one that
	// takes traffic. It is empty when there are others, or when nothing is known.
	LastUp(id string) (where string)
}

// tellChanged tells everybody who wants to know that the Board shows such a change, or that
// all containers of a runtime are known; then id is empty.
func (l *loop) tellChanged(id string) {
	l.board.tellChanged()
	l.config.Publisher.Changed(id)
}

// changes tells of the next change to those who wait for it.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed with the next change; nil when nobody waits
}

func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// noPublisher is the Publisher when Config.Publisher is nil.
type noPublisher struct{}

func (noPublisher) Changed(string)       {}
func (noPublisher) LastUp(string) string { return "" }
