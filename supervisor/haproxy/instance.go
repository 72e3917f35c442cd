package haproxy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"healthd/supervisor/core"
)

// instance pushes to one HAProxy. Only the goroutine of run uses its fields, except changes
// and report.
type instance struct {
	h       *HAProxy
	socket  socket
	changes *changes

	conversation  *conversation
	roster        *roster
	complete      bool      // the roster has all that a complete board had
	changedAt     time.Time // the oldest change that HAProxy does not have; zero: it has all
	pushed        bool      // commands were sent since then
	process       process
	processAge    time.Duration            // of the process
	needsFullSync bool                     // the process may not have all state
	backends      map[string]*backendState // by backend
	behind        bool                     // changes wait for a later sync
	lost          bool
	several       bool        // the process has several sockets to which healthd might push
	standsBy      atomic.Bool // another instance pushes to the process
	sticks        bool        // a table of the process keeps which server a client had
	told          process     // that another instance has, as an event says

	report reportPointer
}

func newInstance(h *HAProxy, s socket) *instance {
	return &instance{h: h, socket: s, changes: newChanges(), conversation: newConversation(), roster: newRoster(), backends: map[string]*backendState{}}
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
		case <-l.changes.signal:
		}
	}
}

// noteReachable records an event when HAProxy stops or begins to answer.
func (l *instance) noteReachable(err error) {
	l.h.metrics.setUp(l.socket, err == nil)
	switch {
	case err != nil && !l.lost:
		l.record(EventLost, textLost, l.socket.text, err)
	case err == nil && l.lost:
		l.record(EventBack, "HAProxy at %s can be updated again", l.socket.text)
	}
	l.lost = err != nil
	if l.lost {
		l.h.claims.release(l)
		l.report.Store(nil)
		l.h.problems.Set(l.socket.text, fmt.Sprintf(textLost, l.socket.text, err))
		return
	}
	l.h.problems.Set(l.socket.text, l.problemTexts()...)
}

const textLost = "HAProxy at %s cannot be updated, its servers keep their last state: %v"

func (l *instance) record(reason, format string, args ...any) {
	l.h.journal.Record(core.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// sync looks at the backends that are due, and executes the commands of their plans.
func (l *instance) sync(ctx context.Context, s Supervisor) error {
	complete := s.Board().Complete() // before the changes: a container that comes in between must not be cleaned up
	l.takeChanges(s.Board(), complete)
	began := time.Now()
	looks, err := l.look(ctx, s.Board(), began)
	if err != nil {
		return err
	}
	var commands []command
	for _, k := range looks {
		l.plan(k, s.Board(), complete, began)
		commands = append(commands, k.commands...)
	}
	took := time.Since(began)
	done, failed, err := l.execute(ctx, commands, max(executeFor, executePerLook*took))
	if err != nil {
		l.requestFullSync()
		if errors.Is(err, errNewProcess) {
			return nil // the next sync looks at that one
		}
		return err
	}
	servers := 0
	for _, k := range looks {
		servers += k.size()
	}
	for _, k := range looks {
		done -= k.cutAfter(done)
		l.finish(k, failed, took*time.Duration(k.size())/time.Duration(max(servers, 1)))
		l.behind = l.behind || k.cut
	}
	l.h.metrics.setProblems(l.socket, l.backends)
	if !l.behind {
		l.notePushed()
		l.publish(began)
	}
	l.h.reportDrained(ctx, s, l.roster)
	return nil
}

// notePushed notes that HAProxy has all changes.
func (l *instance) notePushed() {
	if l.pushed && !l.changedAt.IsZero() {
		l.h.metrics.observePush(time.Since(l.changedAt))
	}
	l.pushed, l.changedAt = false, time.Time{}
}

// requestFullSync makes the next sync set everything again.
func (l *instance) requestFullSync() {
	l.needsFullSync = true
	for _, b := range l.backends {
		clear(b.agentSend)
		clear(b.idlePolls)
		clear(b.repeats)
		clear(b.watched)
		b.servers, b.settled, b.pollAt, b.notBefore = nil, false, time.Time{}, time.Time{}
	}
}
