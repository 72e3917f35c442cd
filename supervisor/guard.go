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
// (grouplimit.go), then the restart budget of the host (budget.go). If the limit of the group is
// over all hosts of a fleet, a place of the fleet comes last (places.go). In each queue the
// longest wait comes first; in that of the budget, projects take turns (budgetturns.go). Only the
// loop uses it, and no call costs more with more containers, but for a logarithm.
type guard struct {
	groups  map[string]*group
	budget  budget
	begun   uint64   // waits that have begun
	waiting int      // containers that wait for any limit
	queued  []*group // in which containers wait for the group or the fleet
	looked  int      // of queued: how many the present look at all has reached
	recheck []*group // whose first waiting containers may be allowed to go on
	reloads int      // under way: not all containers are in their groups yet
	host    hostSuspect

	places  Places              // nil: there is no fleet
	wanting map[*group]struct{} // those in which containers want a place of the fleet
	placed  entryHeap           // those that are down and want their place as long; the outage that ends first comes first
}

// place is where an entry stands in the guard.
type place struct {
	began   uint64        // number of its wait; 0: it does not wait
	stage   stage         // what it waits for
	next    stage         // stage as of the newest wait of the guard; update makes it stage
	inGroup *list.Element // of group.waiting; nil: it is not there
	wanting int           // in group.wanting
	budget  int           // in budget.waiting
	project *project      // with budget: where it waits; nil: nowhere
	inOwn   int           // in project.waiting
	heads   int           // in turns.heads
	asking  int           // in budget.asking
	down    int           // in group.down
	placed  int           // in guard.placed
	away    bool          // it is among group.away
	until   time.Time     // end of its outage; zero: not known, because its restart is under way
	wish    *wish         // nil: it wants no place of the fleet
}

// passed says that the container's group allows its restart, which still waits for another limit.
func (p *place) passed() bool { return p.wanting > 0 || p.budget > 0 || p.asking > 0 }

// waitsForPlace says that it wants a place of the fleet for a restart to come.
func (p *place) waitsForPlace() bool { return p.stage == wantsPlace || p.stage == inBudgetWithPlace }

func newGuard(limit core.Guard, board *Board, places Places) *guard {
	return &guard{
		groups: make(map[string]*group), host: hostSuspect{board: board, groups: make(map[string]int)}, budget: newBudget(limit, board), places: places, wanting: make(map[*group]struct{}),
		placed: entryHeap{
			less:  func(a, b *entry) bool { return a.outageEnd().Before(b.outageEnd()) },
			place: func(e *entry) *int { return &e.place.placed },
		},
	}
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
	e.place.next = inGroup
	switch {
	case g.reloads == 0 && e.engine.view.Synced:
	case e.place.began > 0:
		e.place.next = e.place.stage
		return e.state.Health.Wait
	case g.reloads > 0:
		return core.Wait{Reason: core.WaitGroupLimit, On: "the end of a reload"}
	default:
		return core.Wait{Reason: core.WaitGroupLimit, On: "the first list of its engine's containers"}
	}
	if w := g.host.wait(now); g.budget.limit.HostSuspect && w != (core.Wait{}) {
		return w
	}
	if m := g.groups[e.groupKey]; m.blocks(e, now) {
		return m.wait(e)
	}
	if g.places != nil && e.spec.Group.Fleet {
		return g.fleetWait(e, now)
	}
	e.place.next = inBudget
	return g.budget.wait(e, now)
}

// update takes in a step of e: its restart for a failed probe has begun, its outage is
// over, or it waits. before is why it was being stopped before the step.
func (g *guard) update(e *entry, before core.Cause, now time.Time) {
	s, m := e.state, g.groups[e.groupKey]
	g.host.update(e, now)
	if before == core.NoCause && s.Action.Stopping.ByProbe() {
		e.down = core.Outage{Run: e.state.Run.ID, Since: now}
		g.budget.grant(e, now)
	}
	if m.updateDown(e, now) {
		g.recheckLater(m)
	}
	if s.Health.InQueue() {
		g.beginWait(e)
		g.queue(e, m, e.place.next)
	} else {
		g.unqueue(e)
	}
	g.settlePlace(e)
}

// queue puts e where those of that stage wait. In the group it comes last, also when the group allows
// less than when e went on from there.
func (g *guard) queue(e *entry, m *group, to stage) {
	from := e.place.stage
	e.place.stage = to
	switch {
	case from >= inBudget && to >= inBudget:
		g.budget.put(e)
		return
	case from == to:
		return
	}
	if from != noStage {
		g.leaveQueue(e, m)
	}
	switch to {
	case inGroup:
		e.place.inGroup = m.waiting.PushBack(e)
	case wantsPlace:
		m.wanting.put(e)
	default:
		g.budget.put(e)
	}
	m.recount(e)
	g.noteQueued(m)
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
	e.place.began, e.place.stage = 0, noStage
	g.waiting--
	g.leaveQueue(e, g.groups[e.groupKey])
}

// leaveQueue takes e from the queue that it is in. Others may go on then.
func (g *guard) leaveQueue(e *entry, m *group) {
	if e.place.inGroup != nil {
		m.waiting.Remove(e.place.inGroup)
		e.place.inGroup = nil
	}
	m.wanting.remove(e)
	g.budget.remove(e)
	m.recount(e)
	g.noteQueued(m)
	g.recheckLater(m)
}

// noteQueued takes in whether containers wait in a group, or want a place of the fleet.
func (g *guard) noteQueued(m *group) {
	if m.wanting.Len() > 0 {
		g.wanting[m] = struct{}{}
	} else {
		delete(g.wanting, m)
	}
	switch last := len(g.queued) - 1; {
	case m.longest() == nil && m.queued > 0:
		g.queued[m.queued-1] = g.queued[last]
		g.queued[m.queued-1].queued = m.queued
		g.queued[last], m.queued = nil, 0
		g.queued = g.queued[:last]
	case m.longest() != nil && m.queued == 0:
		g.queued = append(g.queued, m)
		m.queued = len(g.queued)
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
	groups = slices.DeleteFunc(groups, func(m *group) bool { return m.longest() == nil })
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.longest().place.began, b.longest().place.began) })
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
	g.settlePlace(e)
	g.recheckLater(m)
}

// leave undoes join.
func (g *guard) leave(e *entry) {
	m := g.groups[e.groupKey]
	if m == nil || e.spec == nil {
		return
	}
	g.unqueue(e)
	g.host.forget(e, time.Now())
	g.leaveGroup(e, m, e.groupKey)
}

func (g *guard) leaveGroup(e *entry, m *group, name string) {
	m.down.remove(e)
	g.settlePlace(e)
	if e.place.away {
		e.place.away = false
		m.away--
	}
	g.recheckLater(m)
	if m.members--; m.members == 0 {
		delete(g.groups, name)
	}
}

// move takes e from the group named from to that of e. A container that waits for the host's budget
// keeps its place in that queue. Any other comes last in the queue of the new group.
func (g *guard) move(e *entry, from string) {
	if e.groupKey == from {
		return
	}
	m, waits := g.groups[from], e.place.stage == inGroup || e.place.stage == wantsPlace
	switch {
	case waits:
		e.place.stage = noStage
		g.leaveQueue(e, m)
	case e.place.stage == inBudgetWithPlace:
		e.place.stage = inBudget
	}
	g.leaveGroup(e, m, from)
	g.join(e)
	if waits {
		g.queue(e, g.groups[e.groupKey], inGroup)
	}
}
