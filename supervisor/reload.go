package supervisor

import (
	"context"
	"reflect"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Resolver returns the spec of a container. It returns nil and no error when healthd is
// to leave the container alone, and an error when its labels are invalid.
type Resolver func(runtime.Traits) (*core.Spec, error)

// Reload replaces the resolver and the restart budget. A container whose spec is the same
// as before keeps every count and timer. One with another spec is neither restarted nor
// withdrawn. One without a spec is left alone, after a restart that is under way has
// ended. Containers that get a spec now come with the next list of their runtime. Reload
// returns ErrStopping when the loop has ended, or the error of ctx.
func (s *Supervisor) Reload(ctx context.Context, resolve Resolver, guard core.Guard) error {
	return s.request(ctx, request{all: func(l *loop) {
		l.resolver, l.reloadedAt = resolve, time.Now()
		l.guard.setLimit(guard)
		l.guard.reloads++
		l.eachLater(l.allEntries(), l.resolveAgain)
		for id := range l.dropped {
			l.backlog = append(l.backlog, func() { l.observeDropped(id) })
		}
		l.afterBacklog(func() {
			l.guard.reloads--
			l.guard.recheckAll()
		})
	}})
}

// observeDropped looks whether a container that an earlier reload dropped has a spec now.
func (l *loop) observeDropped(id string) {
	if c := l.dropped[id]; c != nil {
		l.observed(update{Runtime: c.Runtime, Container: c}, time.Time{})
	}
}

// resolveAgain gives a container the spec that the resolver returns now.
func (l *loop) resolveAgain(e *entry) {
	spec, err := l.resolver(e.container.Traits())
	e.specOutdated = false
	switch {
	case spec != nil && e.spec != nil:
		l.replaceSpec(e, spec)
	case !e.state.Settled():
		e.specOutdated = true // the restart under way ends by the old spec
	case spec == nil && err == nil:
		l.stopSupervising(e)
	case e.spec != nil || spec != nil || err.Error() != e.invalid:
		l.judgeAnew(e)
	}
}

// replaceSpec replaces a valid spec by another valid one.
func (l *loop) replaceSpec(e *entry, spec *core.Spec) {
	old, oldGroup, oldReached, identity := e.spec, e.groupKey, e.reached, e.identity
	e.setSpec(e.container, spec, nil)
	l.guard.move(e, oldGroup)
	if e.identity != identity {
		l.renamed(e, identity)
	}
	if core.SameSpec(old, spec) {
		l.show(e, *e.state)
		return
	}
	if !reflect.DeepEqual(old.Probes, spec.Probes) || !reachedAlike(e.reached, oldReached) {
		l.resetProbes(e)
	}
	l.step(e, &core.Input{Kind: core.SpecChanged, OldSpec: old})
}

// stopSupervising drops a container that still exists, and remembers what is known of it.
// A later reload may match it again before its watcher has noticed that no spec does. The
// watcher then does not report it anew, so the loop keeps the inspection in dropped.
func (l *loop) stopSupervising(e *entry) {
	l.drop(e)
	if !e.unreported {
		l.dropped[e.container.ID] = e.container
	}
	if e.remembered != nil {
		m := *e.remembered
		m.Restarted, m.Granted, m.DroppedByReload = e.state.Restarted, e.granted, true
		endFleetHold(&m) // the fleet does not see it any more. It holds it again when it is back
		l.notSeenYet[m.ID], l.unsupervised[m.ID] = &m, true
		l.config.Store.Remember(&m)
	}
}

// stopsReporting takes in that a container's watcher reports it no more, because no spec
// matches it. A restart that is under way ends first.
func (l *loop) stopsReporting(e *entry) {
	e.unreported = true
	if e.state.Settled() {
		l.stopSupervising(e)
	} else {
		e.specOutdated = true
	}
}
