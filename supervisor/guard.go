package supervisor

import (
	"slices"
	"time"

	"healthd/supervisor/core"
)

// guard decides which of the containers whose probes ask for a restart may be restarted
// now. Two limits hold: max_unavailable of the container's group (grouplimit.go), then
// the restart budget of the host (budget.go). Only the loop uses it.
type guard struct {
	groups  map[string]*group
	budget  budget
	waiting []*entry // for either limit, longest wait first
	changed bool     // a waiting container may be allowed to go on
}

func newGuard(limit core.Guard) *guard {
	return &guard{groups: make(map[string]*group), budget: budget{limit: limit}}
}

func (g *guard) setLimit(limit core.Guard) {
	g.budget.limit, g.changed = limit, true
}

// wait returns what a restart of e for a failed probe has to wait for; zero: nothing.
func (g *guard) wait(e *entry, now time.Time) core.Wait {
	if w := g.groups[e.group].wait(e, now); w.Reason != "" {
		return w
	}
	return g.budget.wait(e, g.waiting, now)
}

// update takes in a step of e: its restart for a failed probe has begun, its outage is
// over, or it waits. before is why it was being stopped before the step.
func (g *guard) update(e *entry, before core.Cause, now time.Time) {
	s := &e.state
	switch down, _ := e.outage(now); {
	case before == core.NoCause && s.Action.Stopping.ByProbe():
		e.down = core.Outage{Run: e.state.Run.ID, Since: now}
		g.budget.grant(e, now)
	case e.down != core.Outage{} && !down:
		e.down, g.changed = core.Outage{}, true
	}
	switch waits := s.Health.Failed != core.NoCause && s.Health.Wait.Reason != core.WaitHeld; {
	case !waits:
		g.unqueue(e)
	case !slices.Contains(g.waiting, e):
		g.waiting = append(g.waiting, e)
		m := g.groups[e.group]
		m.waiting = append(m.waiting, e)
	}
}

func (g *guard) unqueue(e *entry) {
	if !slices.Contains(g.waiting, e) {
		return
	}
	m := g.groups[e.group]
	m.waiting, g.waiting, g.changed = without(m.waiting, e), without(g.waiting, e), true
}

// newlyExhausted says whether a container waits for the budget, when none did at the last
// call.
func (g *guard) newlyExhausted() bool { return g.budget.newlyExhausted(g.waiting) }

// join makes e a member of its group. An entry without a spec is in no group.
func (g *guard) join(e *entry) {
	if e.spec == nil {
		return
	}
	m := g.groups[e.group]
	if m == nil {
		m = &group{}
		g.groups[e.group] = m
	}
	m.members = append(m.members, e)
}

// leave undoes join.
func (g *guard) leave(e *entry) {
	m := g.groups[e.group]
	if m == nil {
		return
	}
	g.unqueue(e)
	if m.members = without(m.members, e); len(m.members) == 0 {
		delete(g.groups, e.group)
	}
}

// move takes e from the group named from to e.group. A container that waits keeps its
// place in the queue of the host, and comes last in that of the new group.
func (g *guard) move(e *entry, from string) {
	if e.group == from {
		return
	}
	m := g.groups[from]
	waits := slices.Contains(m.waiting, e)
	m.waiting = without(m.waiting, e)
	if m.members = without(m.members, e); len(m.members) == 0 {
		delete(g.groups, from)
	}
	g.join(e)
	if m = g.groups[e.group]; waits {
		m.waiting = append(m.waiting, e)
	}
	g.changed = true
}

func without(list []*entry, e *entry) []*entry {
	return slices.DeleteFunc(list, func(other *entry) bool { return other == e })
}
