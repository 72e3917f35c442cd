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

// stopExplains is how long a stop signal explains an end, beyond the container's stop timeout. A run
// that lives on has survived it.
const stopExplains = 20 * time.Second

// endUnexplained says that c shows a new end, and no event said that a stop began. A KILL
// alone does not explain it: it may be how the engine finished a stop. Of a container seen
// for the first time this is so only if an event told its start or its end, or the Watcher before
// knew it running; else the supervisor may know it from its journal.
func (v *view) endUnexplained(e *entry, c *Container, now time.Time) bool {
	switch {
	case c.State.Alive():
		return false
	case e.known == nil:
		own, _ := v.splitCauses(e, c)
		told := func(kind UpdateKind) bool {
			return slices.ContainsFunc(own, func(u Update) bool { return u.Kind == kind && (kind != Killed || c.BeginsStop(u.Signal)) })
		}
		return (told(Died) || e.toldStartOf(c) || v.endNotObserved(c)) && !told(Killed)
	case now.Sub(e.toldOf(c).stopAt) < max(c.StopTimeout, 0)+stopExplains:
		return false
	}
	return e.known.State.Alive() || e.known.Run() != c.Run()
}

// applyKills takes in the signals to c's run that the engine's history has. The stream may
// have told some of them, but before a start event that was lost they seemed to be of an
// earlier run.
func (v *view) applyKills(e *entry, c *Container, kills []Event, now time.Time) {
	if v.entries[e.id] != e {
		return
	}
	told := e.toldOf(c).signals
	if e.known == nil {
		own, _ := v.splitCauses(e, c)
		for _, u := range own {
			told = append(told, u.Time)
		}
	}
	for _, ev := range kills {
		if v.isNew(ev); slices.ContainsFunc(told, ev.Time.Equal) {
			continue
		}
		u := Update{Kind: Killed, ID: ev.ID, Time: ev.Time, Signal: ev.Signal, Of: e.runHint(), Late: true}
		if e.known != nil && e.newer && e.known.Run() == c.Run() { // the next run has begun meanwhile
			if u.Of = (RunHint{Run: c.Run()}); e.shownInLife {
				u.Of.Started = c.StartedAt
			}
			v.emit(u)
			continue
		}
		if e.known != nil && e.known.Run() != c.Run() {
			u.Of.Newer = true
			if !e.toldStartOf(c) && (!u.Of.Old() || e.shownInLife) { // its start is lost, and came in the engine's present life
				u.Of.Started = c.StartedAt
			}
		}
		e.told.note(c, ev.Signal, ev.Time, now)
		v.emitOrKeep(e, u)
	}
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
	case err == nil && !v.wanted(c.Traits()):
		v.ignore(e.id)
		return
	case diedMeanwhile:
		// It may show the run that the die event ended.
		v.requestInspection(e)
		return
	case err != nil:
		v.inspectFailed(e, err, now)
	default:
		e.failures, e.outdated = 0, false
		v.inspectSucceeded(e, c, inspectAgain, now)
	}
	if inspectAgain {
		v.requestInspection(e)
	}
}

func (v *view) inspectFailed(e *entry, err error, now time.Time) {
	e.outdated = true
	if e.unseen != nil {
		e.unseen.Err = err
	}
	e.retryAt = now.Add(min(retryMin<<min(e.failures, 10), retryMax))
	e.failures++
	v.waiting[e] = struct{}{}
	// A container that cannot be inspected must not delay Synced.
	delete(v.listPending, e)
}

func (v *view) inspectSucceeded(e *entry, c *Container, inspectAgain bool, now time.Time) {
	wasAlive := e.known != nil && e.known.State.Alive() || e.known == nil && c.FinishedAt.After(v.streamFrom)
	unexplained := wasAlive && !c.State.Alive() && !e.dieEventSeen && !e.toldOf(c).kill
	if !unexplained {
		if !inspectAgain {
			e.alive = c.State.Alive()
		}
		v.observe(e, c, now)
		return
	}
	if e.unexplainedEnd == nil {
		e.unexplainedUntil = now.Add(causeWait)
		v.waiting[e] = struct{}{}
	}
	e.unexplainedEnd = c
}

func (v *view) observe(e *entry, c *Container, now time.Time) {
	delete(v.listPending, e)
	e.unexplainedEnd = nil
	if c.State.Alive() {
		e.dieEventSeen = false
	}
	c = c.keepNetwork(e.known)
	if e.known != nil && !e.pauseTold && reflect.DeepEqual(*e.known, *c) {
		return
	}
	e.pauseTold = false
	v.setNetworkOwner(e, c)
	delete(v.unobserved, e)
	u := Update{Kind: Observed, ID: e.id, Container: c}
	var newer []Update
	if e.known == nil {
		u.Causes, newer = v.splitCauses(e, c)
		u.StateFromEvent = e.stateFromEvent
	}
	v.noteObserved(e, c, now)
	for _, cause := range u.Causes {
		if cause.Kind == Killed {
			e.told.note(c, cause.Signal, cause.Time, now)
		}
	}
	v.emit(u)
	e.known, e.unseen, e.reported, e.causes, e.shownInLife = c, nil, true, nil, true
	for _, u := range newer {
		e.newer = true
		v.emit(u)
	}
}

// runDue starts the retries, and reports the unexplained ends, whose time has come.
func (v *view) runDue(now time.Time) {
	for e := range v.waiting {
		if !e.retryAt.IsZero() && !now.Before(e.retryAt) {
			v.requestInspection(e)
		}
		if e.unexplainedEnd != nil && !now.Before(e.unexplainedUntil) {
			e.alive = false
			v.observe(e, e.unexplainedEnd, now)
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
