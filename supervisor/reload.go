package supervisor

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// Resolver finds a container's spec: nil without an error when it is to be left
// alone; an error when its labels are wrong.
type Resolver func(name string, labels map[string]string) (*core.Spec, error)

// Reload makes resolve and guard hold from now on. A container whose spec comes out
// the same keeps every count and timer; the others get the new one without a restart
// and without being withdrawn, and those that are no longer to be supervised are left
// alone as soon as a restart under way is done. Containers that are to be supervised
// from now on come with the next list of their runtime.
func (s *Supervisor) Reload(ctx context.Context, resolve Resolver, guard core.Guard) error {
	return s.request(ctx, request{all: func(l *loop) {
		l.resolver, l.reloaded = resolve, time.Now()
		l.guard.limit, l.guard.changed = guard, true
		for _, e := range slices.Collect(maps.Values(l.entries)) {
			l.resolveAgain(e)
		}
		for _, c := range slices.Collect(maps.Values(l.dropped)) {
			l.observed(update{Runtime: c.Runtime, Container: c})
		}
	}})
}

// resolveAgain looks for the spec of a container again.
func (l *loop) resolveAgain(e *entry) {
	spec, err := l.resolver(e.container.Name, e.container.Labels)
	e.specOutdated = false
	switch {
	case spec != nil && e.spec != nil:
		l.replaceSpec(e, spec)
	case !e.state.Settled():
		e.specOutdated = true // its restart is finished as it was begun, by what the calls tell
	case spec == nil && err == nil:
		l.stopSupervising(e)
	case e.spec != nil || spec != nil || err.Error() != e.invalid:
		c := e.container
		l.stopSupervising(e)
		l.observed(update{Runtime: c.Runtime, Container: c})
	}
}

// stopSupervising drops a container that goes on, and keeps what is known of it: its watcher
// will not report it again before it has taken in that nobody wants it.
func (l *loop) stopSupervising(e *entry) {
	l.drop(e)
	if !e.unreported {
		l.dropped[e.container.ID] = e.container
	}
	if e.remembered.ID != "" {
		m := core.Memory{Facts: e.remembered, Gates: e.rememberedGates, Granted: e.granted}
		m.Left = true
		l.notSeenYet[m.ID], l.unsupervised[m.ID] = m, true
		l.config.Store.Remember(m)
	}
}

// unreported takes in that a container's watcher reports it no more, as nobody wants it.
func (l *loop) unreported(e *entry) {
	e.unreported = true
	if e.state.Settled() {
		l.stopSupervising(e)
	} else {
		e.specOutdated = true
	}
}

// replaceSpec gives a container another spec of the same kind: a valid one.
func (l *loop) replaceSpec(e *entry, spec *core.Spec) {
	old, group := e.spec, e.group
	l.resolved(e, e.container, spec, nil)
	l.guard.move(e, group)
	if core.SameSpec(old, spec) {
		l.show(e)
		return
	}
	if !reflect.DeepEqual(old.Probes, spec.Probes) {
		e.resetProbes(l.asking)
	}
	l.step(e, &core.Input{Kind: core.SpecChanged, OldSpec: old})
}
