package runtime

import (
	"errors"
	"reflect"
	"slices"
	"time"
)

const (
	// settle is how long a death that no event told of, though it is of the time that
	// the stream tells of, waits for the kill event that explains it.
	settle   = 500 * time.Millisecond
	retryMin = 200 * time.Millisecond
	retryMax = 30 * time.Second
)

// lastKnown is what was known of a container when an inspection of it began.
type lastKnown struct {
	known   *Container
	stopped time.Time
}

// leavesOpen says that c shows an end that was not known, and before which nobody was
// heard to begin a stop: KILL alone may be what a stop ends with. Of what is seen for the
// first time others may know more.
func (k lastKnown) leavesOpen(c *Container) bool {
	if k.known == nil || c.State.Alive() || !k.stopped.Before(c.StartedAt) {
		return false
	}
	return k.known.State.Alive() || k.known.Run() != c.Run()
}

// inspected folds the result of an inspection that take handed out.
func (v *view) inspected(e *entry, c *Container, err error, now time.Time) {
	if v.entries[e.id] != e || e.flight != flying {
		return
	}
	again, stale := e.again, e.stale
	e.flight, e.again, e.stale = idle, false, false
	switch {
	case errors.Is(err, ErrNotFound):
		v.remove(e, time.Time{})
		return
	case err == nil && !v.wanted(c.Name, c.Labels):
		v.ignore(e.id)
		return
	case stale:
		// It may show the life that a die event has ended since.
		v.dirty(e)
		return
	case err != nil:
		v.failed(e, now)
	default:
		e.failures, e.unsure = 0, false
		v.learned(e, c, again, now)
	}
	if again {
		v.dirty(e)
	}
}

func (v *view) failed(e *entry, now time.Time) {
	e.unsure = true
	e.retry = now.Add(min(retryMin<<min(e.failures, 10), retryMax))
	e.failures++
	v.waiting[e] = struct{}{}
	// A container that cannot be inspected must not keep the others from being
	// in sync.
	delete(v.syncing, e)
}

func (v *view) learned(e *entry, c *Container, again bool, now time.Time) {
	lived := e.known != nil && e.known.State.Alive() || e.known == nil && c.FinishedAt.After(v.from)
	revealed := lived && !c.State.Alive() && !e.died && e.killed.Before(c.StartedAt)
	if !revealed {
		if !again {
			e.up = c.State.Alive()
		}
		v.observe(e, c)
		return
	}
	if e.held == nil {
		e.until = now.Add(settle)
		v.waiting[e] = struct{}{}
	}
	e.held = c
}

func (v *view) observe(e *entry, c *Container) {
	delete(v.syncing, e)
	e.held = nil
	if c.State.Alive() {
		e.died = false
	}
	if e.known != nil && reflect.DeepEqual(*e.known, *c) {
		return
	}
	v.share(e, c)
	delete(v.untold, e)
	u := Update{Kind: Observed, ID: e.id, Container: c}
	if e.known == nil {
		// Causes from before this run are of no use, and would seem to be its own.
		u.Causes = slices.DeleteFunc(e.early, func(u Update) bool { return !u.Time.IsZero() && u.Time.Before(c.StartedAt) })
		for _, cause := range u.Causes {
			if cause.Kind == Killed {
				e.signalled(c, cause.Signal, cause.Time)
			}
		}
		u.StateFromEvent = e.heard
	}
	v.emit(u)
	e.known, e.early = c, nil
}

// due does what was to wait until now.
func (v *view) due(now time.Time) {
	for e := range v.waiting {
		if !e.retry.IsZero() && !now.Before(e.retry) {
			v.dirty(e)
		}
		if e.held != nil && !now.Before(e.until) {
			e.up = false
			v.observe(e, e.held)
		}
		if e.retry.IsZero() && e.held == nil {
			delete(v.waiting, e)
		}
	}
}

// next returns when due has something to do, and zero when it has not.
func (v *view) next() time.Time {
	var next time.Time
	for e := range v.waiting {
		if !e.retry.IsZero() {
			next = earlier(next, e.retry)
		}
		if e.held != nil {
			next = earlier(next, e.until)
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
