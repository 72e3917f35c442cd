package haproxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"healthd/supervisor/core"
)

const (
	aliveEvery = 200 * time.Millisecond // how often it is looked whether HAProxy is still the same process
	lookEvery  = time.Second            // and whether it shows what it was told
	soonAfter  = 50 * time.Millisecond  // after something was told, and while a stop waits for the last request
	eagerFor   = 2 * time.Second        // after a server was given a container, as an old answer of its agent check may still come
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
	// lingering is how long a process that was reloaded is taken to finish requests of
	// which its successor knows nothing.
	lingering = 30 * time.Second
)

// link is one HAProxy that is told. Only the goroutine of run touches what it keeps,
// but for the report.
type link struct {
	h       *HAProxy
	socket  socket
	changed chan time.Time // of the board; has room for one

	members map[string][]member // by backend, as the board has them
	stale   bool                // the board has others
	since   time.Time           // and has had them since then
	process process
	age     time.Duration    // of the process
	untold  bool             // the process may not have been told everything
	books   map[string]*book // by backend
	lost    bool

	report pointer
}

func newLink(h *HAProxy, s socket) *link {
	return &link{h: h, socket: s, changed: make(chan time.Time, 1), stale: true, books: map[string]*book{}}
}

// run tells HAProxy until ctx ends.
func (l *link) run(ctx context.Context, s Supervisor) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	retry := retryFirst
	for ctx.Err() == nil {
		err := l.round(ctx, s)
		if ctx.Err() != nil {
			return
		}
		l.heard(err)
		if err != nil {
			timer.Reset(retry)
			retry = min(2*retry, retryMost)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			continue
		}
		retry = retryFirst
		timer.Reset(l.pause(time.Now()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case at := <-l.changed:
			l.stale, l.since = true, at
		}
	}
}

// pause returns how long nothing is to be done when nothing changes.
func (l *link) pause(now time.Time) time.Duration {
	d := aliveEvery
	for _, b := range l.books {
		d = min(d, b.lookAt.Sub(now))
	}
	return max(d, time.Millisecond)
}

// heard tells when HAProxy could not be told anything, and when it can be again.
func (l *link) heard(err error) {
	l.h.metrics.up(l.socket, err == nil)
	switch {
	case err != nil && !l.lost:
		l.record(EventLost, "HAProxy at %s cannot be told anything, what it was told last stays: %v", l.socket.text, err)
	case err == nil && l.lost:
		l.record(EventBack, "HAProxy at %s can be told again", l.socket.text)
	}
	l.lost = err != nil
	if l.lost {
		l.report.Store(nil)
	}
}

func (l *link) record(reason, format string, args ...any) {
	l.h.journal.Record(core.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// round looks at what HAProxy shows where that is due, and makes it what it is to be.
func (l *link) round(ctx context.Context, s Supervisor) error {
	complete := s.Board().Synced() // first: who comes after it must not be cleared
	select {
	case at := <-l.changed:
		l.stale, l.since = true, at
	default:
	}
	if l.stale {
		l.members, l.stale = members(s.Board().Views()), false
	}
	began := time.Now()
	due := l.due(began)
	shows, err := l.look(ctx, due)
	if err != nil {
		l.stale = true
		return err
	}
	var commands []command
	plans := make(map[string]*plan, len(shows))
	for name, servers := range shows {
		b, p := l.books[name], l.plan(name, servers)
		p.complete = complete
		p.make(l.members[name])
		plans[name], b.due = p, b.dueOf(p, began)
		commands = append(commands, b.due...)
	}
	failed, err := l.carryOut(ctx, commands)
	if err != nil {
		l.forget()
		return err
	}
	l.since = time.Time{}
	for name, p := range plans {
		l.close(name, p, failed, began)
	}
	l.h.metrics.troubles(l.socket, l.books)
	l.publish(began)
	l.h.settle(ctx, s, l.members)
	return nil
}

// plan returns an empty plan for the servers of one backend.
func (l *link) plan(backend string, servers []*server) *plan {
	p := &plan{backend: backend, servers: servers, agent: l.h.agent, everywhere: l.h.everywhere, telling: map[string]string{}}
	if b := l.books[backend]; b != nil {
		p.slots, p.told, p.held, p.owners = b.slots, b.told, b.held, b.owners
	}
	return p
}

// due returns the backends that are to be looked at.
func (l *link) due(now time.Time) []string {
	for name := range l.members {
		if l.books[name] == nil {
			l.books[name] = newBook()
		}
	}
	var due []string
	for name, b := range l.books {
		if !now.Before(b.lookAt) || !slices.Equal(b.planned, l.members[name]) {
			due = append(due, name)
		}
	}
	slices.Sort(due)
	return due
}

// forget lets everything be told again.
func (l *link) forget() {
	l.untold = true
	for _, b := range l.books {
		clear(b.told)
		clear(b.idle)
		clear(b.again)
		b.planned, b.lookAt = nil, time.Time{}
	}
}
