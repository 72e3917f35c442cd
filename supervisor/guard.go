package supervisor

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// guard decides which of the containers whose probes ask for a restart may be restarted
// now. Two limits hold, one after the other: max_unavailable of the container's group
// (grouplimit.go), then the restart budget of the host (budget.go). In each queue the
// longest wait comes first. Only the loop uses it, and no call costs more with more
// containers, but for a logarithm.
type guard struct {
	groups  map[string]*group
	budget  budget
	begun   uint64   // waits that have begun
	waiting int      // containers that wait for either limit
	queued  []*group // in which containers wait
	looked  int      // of queued: how many the present look at all has reached
	recheck []*group // whose first waiting containers may be allowed to go on
	reloads int      // under way: not all containers are in their groups yet
}

// place is where an entry stands in the guard.
type place struct {
	began   uint64        // number of its wait; 0: it does not wait
	inGroup *list.Element // of group.waiting; nil: it is not there
	budget  int           // in budget.waiting
	down    int           // in group.down
	away    bool          // it is among group.away
	until   time.Time     // end of its outage; zero: not known, because its restart is under way
}

func newGuard(limit core.Guard, board *Board) *guard {
	return &guard{groups: make(map[string]*group), budget: newBudget(limit, board)}
}

func (g *guard) setLimit(limit core.Guard) {
	g.budget.limit = limit
	g.budget.changed = true
	g.budget.show()
}

// wait returns what a restart of e for a failed probe has to wait for; zero: nothing.
// Before the first list of its engine, and during a reload, members of its group may be
// down that are not known as members yet.
func (g *guard) wait(e *entry, now time.Time) core.Wait {
	switch {
	case g.reloads == 0 && e.engine.view.Synced:
	case e.place.began > 0:
		return e.state.Health.Wait
	case g.reloads > 0:
		return core.Wait{Reason: core.WaitGroupLimit, On: "the end of a reload"}
	default:
		return core.Wait{Reason: core.WaitGroupLimit, On: "the first list of its engine's containers"}
	}
	if m := g.groups[e.groupKey]; m.blocks(e, now) {
		return m.wait(e)
	}
	return g.budget.wait(e, now)
}

// update takes in a step of e: its restart for a failed probe has begun, its outage is
// over, or it waits. before is why it was being stopped before the step.
func (g *guard) update(e *entry, before core.Cause, now time.Time) {
	s, m := e.state, g.groups[e.groupKey]
	if before == core.NoCause && s.Action.Stopping.ByProbe() {
		e.down = core.Outage{Run: e.state.Run.ID, Since: now}
		g.budget.grant(e, now)
	}
	if m.updateDown(e, now) {
		g.recheckLater(m)
	}
	switch {
	case !s.Health.Wait.ByGuard():
		g.unqueue(e)
	case s.Health.Wait.Reason == core.WaitGroupLimit:
		g.beginWait(e)
		if g.budget.waiting.has(e) { // the group allows less than when e came into that queue
			g.leaveQueue(e, m)
		}
		if e.place.inGroup == nil {
			g.enqueue(e, m)
		}
	case !g.budget.waiting.has(e):
		g.beginWait(e)
		g.leaveQueue(e, m)
		g.budget.waiting.put(e)
		m.recount(e)
	}
}

func (g *guard) beginWait(e *entry) {
	if e.place.began == 0 {
		g.begun++
		g.waiting++
		e.place.began = g.begun
	}
}

func (g *guard) unqueue(e *entry) {
	if e.place.began == 0 {
		return
	}
	e.place.began = 0
	g.waiting--
	g.leaveQueue(e, g.groups[e.groupKey])
}

// leaveQueue takes e from the queue that it is in. Others may go on then.
func (g *guard) leaveQueue(e *entry, m *group) {
	if e.place.inGroup != nil {
		g.dequeue(e, m)
	}
	if g.budget.waiting.remove(e) {
		m.recount(e)
		g.budget.changed = true
	}
	g.recheckLater(m)
}

// enqueue puts e at the end of its group's queue.
func (g *guard) enqueue(e *entry, m *group) {
	e.place.inGroup = m.waiting.PushBack(e)
	if m.waiting.Len() == 1 {
		m.queued = len(g.queued)
		g.queued = append(g.queued, m)
	}
}

func (g *guard) dequeue(e *entry, m *group) {
	m.waiting.Remove(e.place.inGroup)
	e.place.inGroup = nil
	if last := len(g.queued) - 1; m.waiting.Len() == 0 {
		g.queued[m.queued] = g.queued[last]
		g.queued[m.queued].queued = m.queued
		g.queued = g.queued[:last]
	}
}

// recheckLater has the loop look at the first waiting containers of a group.
func (g *guard) recheckLater(m *group) {
	if !m.rechecked {
		m.rechecked = true
		g.recheck = append(g.recheck, m)
	}
}

// recheckSome has the loop look at the next groups in the present look at all, as an
// outage ends without a message.
func (g *guard) recheckSome() {
	const atOnce = 64
	from := min(g.looked, len(g.queued))
	g.looked = min(from+atOnce, len(g.queued))
	for _, m := range g.queued[from:g.looked] {
		g.recheckLater(m)
	}
}

// recheckAll has the loop look at all who wait.
func (g *guard) recheckAll() {
	g.budget.changed = true
	for _, m := range g.queued {
		g.recheckLater(m)
	}
}

// endLook says whether the present look has reached all who wait. The next one then
// begins with the first.
func (g *guard) endLook() bool {
	if g.looked < len(g.queued) || g.budget.shown < g.budget.waiting.Len() {
		return false
	}
	g.looked, g.budget.shown = 0, 0
	return true
}

// changed says whether a waiting container may be allowed to go on.
func (g *guard) changed() bool { return len(g.recheck) > 0 || g.budget.changed }

// toRecheck returns the groups to look at, in the order of their longest waits, and
// forgets them.
func (g *guard) toRecheck() []*group {
	groups := g.recheck
	g.recheck = nil
	for _, m := range groups {
		m.rechecked = false
	}
	groups = slices.DeleteFunc(groups, func(m *group) bool { return m.first() == nil })
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.first().place.began, b.first().place.began) })
	return groups
}

// join makes e a member of its group. An entry without a spec is in no group.
func (g *guard) join(e *entry) {
	if e.spec == nil {
		return
	}
	m := g.groups[e.groupKey]
	if m == nil {
		m = newGroup()
		g.groups[e.groupKey] = m
	}
	m.members++
	m.updateDown(e, time.Now())
	m.recount(e)
	g.recheckLater(m)
}

// leave undoes join.
func (g *guard) leave(e *entry) {
	m := g.groups[e.groupKey]
	if m == nil || e.spec == nil {
		return
	}
	g.unqueue(e)
	g.leaveGroup(e, m, e.groupKey)
}

func (g *guard) leaveGroup(e *entry, m *group, name string) {
	m.down.remove(e)
	if e.place.away {
		e.place.away = false
		m.away--
	}
	g.recheckLater(m)
	if m.members--; m.members == 0 {
		delete(g.groups, name)
	}
}

// move takes e from the group named from to that of e. A container that waits keeps its
// place in the queue of the host, and comes last in that of the new group.
func (g *guard) move(e *entry, from string) {
	if e.groupKey == from {
		return
	}
	m, waits := g.groups[from], e.place.inGroup != nil
	if waits {
		g.dequeue(e, m)
	}
	g.leaveGroup(e, m, from)
	g.join(e)
	if waits {
		g.enqueue(e, g.groups[e.groupKey])
	}
}
