package haproxy

import (
	"sync"
	"time"

	"healthd/supervisor"
)

// changes are those of the board that an instance has not taken in yet. Any goroutine may tell of one.
type changes struct {
	signal chan struct{} // has room for one

	mu    sync.Mutex
	ids   map[string]bool // of the containers
	all   bool            // anything may have changed
	since time.Time       // of the oldest; zero: there is none
}

// maxChanges is how many are known one by one: to look at all containers is cheaper then.
const maxChanges = 1024

func newChanges() *changes {
	return &changes{signal: make(chan struct{}, 1), ids: map[string]bool{}, all: true}
}

// tell notes that a container has changed; an empty id means that any may have.
func (c *changes) tell(id string, now time.Time) {
	c.mu.Lock()
	c.ids[id] = true
	if c.all = c.all || id == "" || len(c.ids) > maxChanges; c.all {
		clear(c.ids)
	}
	if c.since.IsZero() {
		c.since = now
	}
	c.mu.Unlock()
	select {
	case c.signal <- struct{}{}:
	default: // it is told already
	}
}

// take returns the changes since the last call.
func (c *changes) take() (ids map[string]bool, all bool, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, since = c.all, c.since
	if len(c.ids) > 0 {
		ids, c.ids = c.ids, map[string]bool{}
	}
	c.all, c.since = false, time.Time{}
	select {
	case <-c.signal:
	default:
	}
	return ids, all, since
}

// takeChanges takes the changes of the board into the roster. When the board has become complete, that is the whole
// board: what was shown before that may be told of later, and must not be cleaned up.
func (l *instance) takeChanges(board *supervisor.Board, complete bool) {
	ids, all, since := l.changes.take()
	all, l.complete = all || complete && !l.complete, complete
	if l.changedAt.IsZero() {
		l.changedAt = since
	}
	if all {
		l.roster.takeAll(board)
		return
	}
	l.roster.take(ids, board)
}
