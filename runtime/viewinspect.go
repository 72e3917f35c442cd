package runtime

import (
	"errors"
	"reflect"
	"slices"
	"time"
)

const (
	// causeWait is how long an end that an inspection shows before its event came is
	// held back: the kill event may follow, and must be sent first.
	causeWait = 500 * time.Millisecond
	retryMin  = 200 * time.Millisecond
	retryMax  = 30 * time.Second
)

// lastKnown is what was known of a container when an inspection of it began.
type lastKnown struct {
	known        *Container
	stopSignalAt time.Time
	causes       []Update // that events told, while known is nil
}

// endUnexplained says that c shows a new end, and no event said that a stop began. A KILL
// alone does not explain it: it may be how the engine finished a stop. Of a container seen
// for the first time this is so only if an event told its end; else the supervisor may know
// it from its journal.
func (k lastKnown) endUnexplained(c *Container) bool {
	switch {
	case c.State.Alive():
		return false
	case k.known == nil:
		return k.caused(c, Died, 0) && !k.caused(c, Killed, c.StopSignalNumber())
	case !k.stopSignalAt.Before(c.StartedAt):
		return false
	}
	return k.known.State.Alive() || k.known.Run() != c.Run()
}

// caused says whether an event told that of the present run.
func (k lastKnown) caused(c *Container, kind UpdateKind, signal int) bool {
	return slices.ContainsFunc(k.causes, func(u Update) bool {
		return u.Kind == kind && u.Signal == signal && !u.Time.Before(c.StartedAt)
	})
}

// applyInspection takes in the result of an inspection that nextToInspect handed out.
func (v *view) applyInspection(e *entry, c *Container, err error, now time.Time) {
	if v.entries[e.id] != e || e.inspect != inspectRunning {
		return
	}
	inspectAgain, diedMeanwhile := e.inspectAgain, e.diedMeanwhile
	e.inspect, e.inspectAgain, e.diedMeanwhile = inspectIdle, false, false
	switch {
	case errors.Is(err, ErrNotFound):
		v.remove(e, time.Time{})
		return
	case err == nil && !v.wanted(c.Name, c.Labels):
		v.ignore(e.id)
		return
	case diedMeanwhile:
		// It may show the run that the die event ended.
		v.requestInspection(e)
		return
	case err != nil:
		v.inspectFailed(e, now)
	default:
		e.failures, e.outdated = 0, false
		v.inspectSucceeded(e, c, inspectAgain, now)
	}
	if inspectAgain {
		v.requestInspection(e)
	}
}

func (v *view) inspectFailed(e *entry, now time.Time) {
	e.outdated = true
	e.retryAt = now.Add(min(retryMin<<min(e.failures, 10), retryMax))
	e.failures++
	v.waiting[e] = struct{}{}
	// A container that cannot be inspected must not delay Synced.
	delete(v.listPending, e)
}

func (v *view) inspectSucceeded(e *entry, c *Container, inspectAgain bool, now time.Time) {
	wasAlive := e.known != nil && e.known.State.Alive() || e.known == nil && c.FinishedAt.After(v.streamFrom)
	unexplained := wasAlive && !c.State.Alive() && !e.dieEventSeen && e.killSignalAt.Before(c.StartedAt)
	if !unexplained {
		if !inspectAgain {
			e.alive = c.State.Alive()
		}
		v.observe(e, c)
		return
	}
	if e.unexplainedEnd == nil {
		e.unexplainedUntil = now.Add(causeWait)
		v.waiting[e] = struct{}{}
	}
	e.unexplainedEnd = c
}

func (v *view) observe(e *entry, c *Container) {
	delete(v.listPending, e)
	e.unexplainedEnd = nil
	if c.State.Alive() {
		e.dieEventSeen = false
	}
	if e.known != nil && reflect.DeepEqual(*e.known, *c) {
		return
	}
	v.setNetworkOwner(e, c)
	delete(v.unobserved, e)
	u := Update{Kind: Observed, ID: e.id, Container: c}
	if e.known == nil {
		// Causes from before this run would be taken for its own.
		u.Causes = slices.DeleteFunc(e.causes, func(u Update) bool { return !u.Time.IsZero() && u.Time.Before(c.StartedAt) })
		for _, cause := range u.Causes {
			if cause.Kind == Killed {
				e.noteSignal(c, cause.Signal, cause.Time)
			}
		}
		u.StateFromEvent = e.stateFromEvent
	}
	v.emit(u)
	e.known, e.causes = c, nil
}

// runDue starts the retries, and reports the unexplained ends, whose time has come.
func (v *view) runDue(now time.Time) {
	for e := range v.waiting {
		if !e.retryAt.IsZero() && !now.Before(e.retryAt) {
			v.requestInspection(e)
		}
		if e.unexplainedEnd != nil && !now.Before(e.unexplainedUntil) {
			e.alive = false
			v.observe(e, e.unexplainedEnd)
		}
		if e.retryAt.IsZero() && e.unexplainedEnd == nil {
			delete(v.waiting, e)
		}
	}
}

// nextDue returns when runDue has something to do, and zero when it has nothing.
func (v *view) nextDue() time.Time {
	var next time.Time
	for e := range v.waiting {
		if !e.retryAt.IsZero() {
			next = earlier(next, e.retryAt)
		}
		if e.unexplainedEnd != nil {
			next = earlier(next, e.unexplainedUntil)
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
