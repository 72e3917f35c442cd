package haproxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"healthd/supervisor/core"
)

const (
	aliveInterval = 200 * time.Millisecond // between checks whether HAProxy is still the same process
	pollInterval  = time.Second            // between polls of a backend's servers
	pollSoon      = 50 * time.Millisecond  // until the poll after a command, and while a stop waits for the last request
	pollSoonFor   = 2 * time.Second        // how long to pollSoon after a server got a container: an old answer of its agent check may still come
	retryMin      = 50 * time.Millisecond
	retryMax      = time.Second
	// reloadGrace is how long after a reload the old process may still have requests under
	// way, which the new process does not show.
	reloadGrace = 30 * time.Second
)

// instance pushes to one HAProxy. Only the goroutine of run uses its fields, except changed
// and report.
type instance struct {
	h       *HAProxy
	socket  socket
	changed chan time.Time // when the board changed; has room for one

	conversation  *conversation
	members       map[string][]member // by backend, from the board
	membersStale  bool                // members are older than the board
	changedAt     time.Time           // when the board changed
	process       process
	processAge    time.Duration            // of the process
	needsFullSync bool                     // the process may not have all state
	backends      map[string]*backendState // by backend
	lost          bool

	report reportPointer
}

func newInstance(h *HAProxy, s socket) *instance {
	return &instance{h: h, socket: s, changed: make(chan time.Time, 1), conversation: newConversation(), membersStale: true, backends: map[string]*backendState{}}
}

// run syncs until ctx ends.
func (l *instance) run(ctx context.Context, s Supervisor) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	retry := retryMin
	for ctx.Err() == nil {
		err := l.sync(ctx, s)
		if ctx.Err() != nil {
			return
		}
		l.noteReachable(err)
		if err != nil {
			timer.Reset(retry)
			retry = min(2*retry, retryMax)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			continue
		}
		retry = retryMin
		timer.Reset(l.pause(time.Now()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case at := <-l.changed:
			l.membersStale, l.changedAt = true, at
		}
	}
}

// pause returns the time until the next sync if nothing changes.
func (l *instance) pause(now time.Time) time.Duration {
	d := aliveInterval
	for _, b := range l.backends {
		d = min(d, b.pollAt.Sub(now))
	}
	return max(d, time.Millisecond)
}

// noteReachable records an event when HAProxy stops or begins to answer.
func (l *instance) noteReachable(err error) {
	l.h.metrics.setUp(l.socket, err == nil)
	switch {
	case err != nil && !l.lost:
		l.record(EventLost, "HAProxy at %s cannot be updated, its servers keep their last state: %v", l.socket.text, err)
	case err == nil && l.lost:
		l.record(EventBack, "HAProxy at %s can be updated again", l.socket.text)
	}
	l.lost = err != nil
	if l.lost {
		l.report.Store(nil)
	}
}

func (l *instance) record(reason, format string, args ...any) {
	l.h.journal.Record(core.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// sync polls the backends that are due, and executes the commands of their plans.
func (l *instance) sync(ctx context.Context, s Supervisor) error {
	complete := s.Board().Synced() // before Views: a container that comes in between must not be cleaned up
	select {
	case at := <-l.changed:
		l.membersStale, l.changedAt = true, at
	default:
	}
	if l.membersStale {
		l.members, l.membersStale = members(s.Board().Views()), false
	}
	began := time.Now()
	due := l.due(began)
	shows, err := l.poll(ctx, due)
	if err != nil {
		l.membersStale = true
		return err
	}
	var commands []command
	plans := make(map[string]*plan, len(shows))
	for name, servers := range shows {
		b, p := l.backends[name], l.plan(name, servers)
		p.complete = complete
		p.compute(l.members[name])
		plans[name], b.dueCommands = p, b.dueOf(p, began)
		commands = append(commands, b.dueCommands...)
	}
	failed, err := l.execute(ctx, commands)
	if err != nil {
		l.requestFullSync()
		return err
	}
	l.changedAt = time.Time{}
	for name, p := range plans {
		l.finishBackend(name, p, failed, began)
	}
	l.h.metrics.setProblems(l.socket, l.backends)
	l.publish(began)
	l.h.reportDrained(ctx, s, l.members)
	return nil
}

// plan returns an empty plan for the servers of one backend.
func (l *instance) plan(backend string, servers []*server) *plan {
	p := &plan{backend: backend, servers: servers, agent: l.h.agent, agentOnAllAddresses: l.h.agentOnAllAddresses, newAgentSend: map[string]string{}}
	all := 0
	for _, members := range l.members {
		all += len(members)
	}
	p.agentInterval = agentInterval(all)
	if b := l.backends[backend]; b != nil {
		p.slots, p.agentSend, p.wasSetAside, p.owners = b.slots, b.agentSend, b.wasSetAside, b.owners
	}
	return p
}

// due returns the backends to poll now.
func (l *instance) due(now time.Time) []string {
	for name := range l.members {
		if l.backends[name] == nil {
			l.backends[name] = newBackendState()
		}
	}
	var due []string
	for name, b := range l.backends {
		if !now.Before(b.pollAt) || !slices.Equal(b.plannedMembers, l.members[name]) {
			due = append(due, name)
		}
	}
	slices.Sort(due)
	return due
}

// requestFullSync makes the next sync set everything again.
func (l *instance) requestFullSync() {
	l.needsFullSync = true
	for _, b := range l.backends {
		clear(b.agentSend)
		clear(b.idlePolls)
		clear(b.repeats)
		b.plannedMembers, b.pollAt = nil, time.Time{}
	}
}
