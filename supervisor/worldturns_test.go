package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// turns knows the rules of docs/semantics.md, "Whose turn it is", in their simplest form, and what has happened in a
// world. It looks at all containers each time. The loops of the world's daemons call it, one after the other, with the
// world's lock.
type turns struct {
	h       *world
	r       *rand.Rand
	d       *worldDaemon // the newest one
	l       *loop        // of it
	shares  [turnGroups]core.Share
	fleet   [turnGroups]bool
	patient [turnGroups]bool       // waits for the fleet as long as that is away
	outages map[string]core.Outage // by container ID
	until   map[string]time.Time   // of those that are sure to be over then
	granted []grantedTurn          // restarts for failed probes, oldest first
	waits   map[string]turn        // by container ID
	begun   int                    // waits so far
	places  *worldPlaces

	projects map[string]projectTurn // that wait for the budget
	looked   time.Time              // when they were noted last
	asked    map[string]time.Time   // by container ID: when its turn came, and its liveness probe was asked once more
}

const turnGroups = 3

// turn is the wait of one container. It has a place in each queue that it is in.
type turn struct {
	began  int // in the queue of the host
	since  time.Time
	queued int    // in the queue of the group
	group  string // empty: in none
}

// grantedTurn is a restart that counts in the budget.
type grantedTurn struct {
	id string
	at time.Time
}

func newTurns(r *rand.Rand) *turns {
	t := &turns{
		r: r, outages: make(map[string]core.Outage), until: make(map[string]time.Time), waits: make(map[string]turn),
		projects: make(map[string]projectTurn), asked: make(map[string]time.Time),
	}
	t.places = newWorldPlaces(t)
	t.redraw()
	return t
}

// redraw decides how many of each group may be down, and where that is over the fleet.
func (t *turns) redraw() {
	most := []core.Share{{}, {Number: 1 + t.r.IntN(3)}, {Percent: 1 + t.r.IntN(100)}}
	for i := range turnGroups {
		t.shares[i], t.fleet[i], t.patient[i] = most[i], t.r.IntN(2) == 0, t.r.IntN(2) == 0
	}
	if h := t.h; h != nil && h.guard.MaxRestarts > 0 && t.r.IntN(2) == 0 {
		h.guard.MaxRestarts = 1 + t.r.IntN(4)
	}
}

// spec is the spec of a container, in a group that is drawn. A reload neither ends an outage nor begins it again: how
// long a container takes to become ready stays.
func (t *turns) spec(i int, r *rand.Rand) *core.Spec {
	group := r.IntN(turnGroups)
	s := slowReadySpec(core.Group{
		Name: fmt.Sprint(group), MaxUnavailable: t.shares[group], Fleet: t.fleet[group], FleetWait: t.patient[group],
	})
	for _, probe := range []core.ProbeType{core.Liveness, core.Readiness} {
		s.Probes[probe] = tcpProbe(int(probe), time.Second, 1)
	}
	s.Probes[core.Readiness].InitialDelay = time.Duration(6*i) * time.Second
	s.Publish.Drain = time.Duration(i%3) * 10 * time.Second
	return s
}

// act has something happen to the places of the fleet. Now and then several containers hang at once, so that queues
// become long.
func (t *turns) act() {
	if t.r.IntN(8) == 0 {
		t.h.locked(func() {
			for _, c := range t.h.engine.containers {
				c.hung = c.hung || t.r.IntN(2) == 0
			}
		})
	}
	t.h.playPlaces(t.places.play)
}

func (t *turns) errorf(format string, args ...any) { t.h.fail("%s", fmt.Sprintf(format, args...)) }

// begin has the next daemon be looked at. It knows what is on the disk: a restart that is not there was not begun.
func (t *turns) begin(d *worldDaemon) {
	if t.d != nil && !t.d.isKilled() {
		t.endOutages()
	}
	clear(t.waits)
	clear(t.projects)
	clear(t.asked)
	t.places.forget()
	for id, o := range t.outages {
		c := t.h.engine.find(id)
		stopped := c != nil && c.signals > 0 && c.cause.ByProbe() && c.info.Run() == o.Run
		if stopped && t.h.disk.memories[id].Down.Run != o.Run {
			t.errorf("%s was stopped for a failed probe, and the next daemon is not told", c.template.name)
		}
	}
	t.granted = slices.DeleteFunc(t.granted, func(g grantedTurn) bool {
		return t.h.engine.find(g.id) != nil && !slices.ContainsFunc(t.h.disk.memories[g.id].Granted, g.at.Equal)
	})
	clear(t.until)
	clear(t.outages) // also those that are over, where the disk was too slow for the news
	for id, m := range t.h.disk.memories {
		if m.Down != (core.Outage{}) {
			t.outages[id] = m.Down
			t.until[id] = t.outageUntil(m.Name, m.Run, m.Down)
		}
	}
	t.d = d
	d.sup.inbox <- inspectLoop(func(l *loop) { t.h.locked(func() { t.l = l }) })
}

// outageUntil is when an outage is over at the latest if the run goes on: when that was to be ready.
func (t *turns) outageUntil(name string, run core.Run, o core.Outage) time.Time {
	until := o.Since.Add(maxOutage)
	if spec := t.h.specs[name]; run.ID != o.Run && spec != nil {
		until = earlier(until, run.BeganAt.Add(spec.TimeToReady()))
	}
	return until
}

// recorded is called with each event, which may be that of a restart for a failed probe.
func (t *turns) recorded(d *worldDaemon, ev core.Event) {
	if d != t.h.daemon || t.l == nil || t.l.Supervisor != d.sup {
		return
	}
	t.endOutages()
	t.noteAsks()
	for _, e := range t.l.entries {
		again := t.outages[e.container.ID].Run == e.state.Run.ID // the call did not come through
		if ev.Reason == core.EventKilling && e.container.Name == ev.Container && e.state.Action.Stopping.ByProbe() && !again {
			t.noteRestart(e)
		}
	}
	t.noteWaits()
}

// look notes who waits, and whose outage is over. Between two probes of a container it misses neither.
func (t *turns) look(d *worldDaemon) {
	_ = d.sup.send(context.Background(), inspectLoop(func(l *loop) {
		t.h.locked(func() {
			if d == t.h.daemon {
				t.endOutages()
				t.noteWaits()
			}
		})
	}))
}

// checkAll checks all who wait, after the loop has looked at all of them.
func (t *turns) checkAll(d *worldDaemon) {
	_ = d.sup.send(context.Background(), inspectLoop(func(l *loop) { l.recheckAt = time.Time{} }))
	synctest.Wait()
	time.Sleep(time.Microsecond) // each slice of a look takes a nanosecond
	synctest.Wait()
	_ = d.sup.send(context.Background(), inspectLoop(func(l *loop) {
		t.h.locked(func() {
			if d == t.h.daemon && d.synced && d.stopRequestedAt.IsZero() {
				t.endOutages()
				t.checkWaits()
			}
		})
	}))
	synctest.Wait()
}

// members returns the containers that healthd supervises in a group.
func (t *turns) members(group string) (all []*entry) {
	for _, e := range t.l.entries {
		if e.spec != nil && e.spec.Group.Name == group {
			all = append(all, e)
		}
	}
	return all
}

// down says whether a container is down for a failed probe.
func (t *turns) down(e *entry) bool {
	o, ok := t.outages[e.container.ID]
	return ok && stillDown(e.state, e.spec, o)
}

// stillDown says whether a container is down for the restart that began that outage.
func stillDown(s *core.State, spec *core.Spec, o core.Outage) bool {
	switch {
	case time.Since(o.Since) >= 15*time.Minute:
		return false
	case s.Settled() && !s.Shutdown.LeftOver && !s.StopLeft() && (s.Run.ID == o.Run || !s.Engine.State.Alive()):
		return false
	case s.Run.ID == o.Run:
		return true
	}
	return !s.Conditions.Ready.Status && time.Now().Before(s.Run.BeganAt.Add(spec.TimeToReady()))
}

// endOutages forgets the outages that are over: they do not come back. The daemon may not have seen all containers yet.
func (t *turns) endOutages() {
	for id := range t.outages {
		e, c := t.l.entries[id], t.h.engine.find(id)
		switch until := t.until[id]; {
		case !until.IsZero() && !time.Now().Before(until): // whatever runs since then
			delete(t.outages, id)
		case e == nil && c != nil && t.h.specs[c.template.name] != nil:
		case e == nil, e.spec == nil, !t.down(e):
			delete(t.outages, id)
		default:
			t.until[id] = t.outageUntil(e.container.Name, e.state.Run, t.outages[id])
		}
	}
}

func waitsFor(e *entry, reason string) bool {
	wait := e.state.Health.Wait
	return e.state.Health.Failed != core.NoCause && wait.Reason == reason && wait.Asked.IsZero()
}

// others returns the other members of e's group, and how many may be down at once.
func (t *turns) others(e *entry) (others []*entry, most int) {
	others = slices.DeleteFunc(t.members(e.spec.Group.Name), func(o *entry) bool { return o == e })
	if len(others) == 0 {
		return nil, 1
	}
	return others, e.spec.Group.MaxUnavailable.Of(len(others) + 1)
}

// ofBudget returns how many restarts count in the budget now.
func (t *turns) ofBudget() (n int) {
	for _, g := range t.granted {
		if time.Since(g.at) < t.h.guard.Window {
			n++
		}
	}
	return n
}

// askers counts those whose turn has come, and whose liveness probe is asked once more.
func (t *turns) askers() (n int) {
	for _, e := range t.l.entries {
		if e.state.Health.Asking() {
			n++
		}
	}
	return n
}

// noteRestart checks a restart for a failed probe that begins now, and notes it.
func (t *turns) noteRestart(e *entry) {
	t.checkRestart(e)
	t.outages[e.container.ID] = core.Outage{Run: e.state.Run.ID, Since: time.Now()}
	delete(t.until, e.container.ID)
	delete(t.waits, e.container.ID)
	if t.l.guard.budget.limit.MaxRestarts > 0 {
		t.granted = append(t.granted, grantedTurn{e.container.ID, time.Now()})
	}
}

func (t *turns) checkRestart(e *entry) {
	others, most := t.others(e)
	var down []string
	for _, o := range others {
		if t.down(o) {
			down = append(down, o.container.Name)
		}
	}
	if len(down) >= most {
		t.errorf("%s is restarted, and %v of its group are down already, of which %d may be", e.container.Name, down, most)
	}
	if g := e.spec.Group; g.Fleet {
		if state := t.places.state(e.container.ID); !state.Granted && (g.FleetWait || !state.Unreachable) {
			t.errorf("%s is restarted without a place of the fleet: %+v", e.container.Name, state)
		}
	}
	y := e.state.Health.Probes[core.Liveness]
	if w, ok := t.waits[e.container.ID]; ok && e.state.Action.Stopping == core.ByLiveness && time.Since(w.since) > 2*e.spec.Probes[core.Liveness].Period &&
		!(y.Outcome == prober.Failure && y.LastAt.Equal(time.Now())) {
		t.errorf("%s is restarted after %v, and its liveness probe is not asked once more", e.container.Name, time.Since(w.since))
	}
	limit := t.l.guard.budget.limit.MaxRestarts
	if limit <= 0 {
		return
	}
	if t.ofBudget() >= limit {
		t.errorf("%s is restarted, and %d restarts of %d were granted already", e.container.Name, t.ofBudget(), limit)
	}
	if _, asked := t.asked[e.container.ID]; !asked { // else that was checked when its turn came
		t.checkTurn(e)
		t.use(projectOf(e), time.Now())
	}
}

// noteWaits notes who waits now, and where.
func (t *turns) noteWaits() {
	t.begun++
	t.noteAsks()
	for id := range t.asked {
		if e := t.l.entries[id]; e == nil || e.state.Health.Wait.Asked.IsZero() {
			delete(t.asked, id)
		}
	}
	for id, e := range t.l.entries {
		before := t.waits[id]
		if e.spec == nil || e.state.Health.Failed == core.NoCause || !e.state.Health.InQueue() {
			delete(t.waits, id)
			continue
		}
		w := turn{began: cmp.Or(before.began, t.begun), since: before.since}
		if before.began == 0 {
			w.since = time.Now()
		}
		if t.waitsForGroup(e) {
			w.group, w.queued = e.spec.Group.Name, t.begun
			if before.group == w.group {
				w.queued = before.queued
			}
		}
		t.waits[id] = w
	}
	t.noteProjects()
}

// checkWaits checks all who wait, when there is nothing left to do.
func (t *turns) checkWaits() {
	t.noteWaits()
	t.places.check()
	if limit := t.l.guard.budget.limit; limit != t.h.guard {
		t.errorf("the budget is %+v, not %+v", limit, t.h.guard)
	}
	byGroup := make(map[string][]*entry)
	for _, e := range t.l.entries {
		if e.spec == nil {
			continue
		}
		failed, wait, held := e.state.Health.Failed != core.NoCause, e.state.Health.Wait, e.state.Lasting.Held()
		if failed != (wait.Reason != "") || held && failed != (wait.Reason == core.WaitHeld) {
			t.errorf("%s has failed: %v, is held: %v, and waits for %+v", e.container.Name, failed, held, wait)
		}
		switch {
		case t.waitsForGroup(e):
			byGroup[e.spec.Group.Name] = append(byGroup[e.spec.Group.Name], e)
		case waitsFor(e, core.WaitRestartBudget) && t.ofBudget()+t.askers() < t.h.guard.MaxRestarts:
			t.errorf("%s waits for the budget, of which %d of %d are used",
				e.container.Name, t.ofBudget(), t.h.guard.MaxRestarts)
		}
		if spec := t.h.specs[e.container.Name]; e.state.Settled() && (spec == nil || e.spec.Group != spec.Group) {
			t.errorf("%s is of the group %+v, by its newest spec %+v", e.container.Name, e.spec.Group, spec)
		}
	}
	for _, queue := range byGroup {
		t.checkQueue(queue)
	}
}

// checkQueue checks who is the first of those that wait for a group. Those that came at the same time may have any
// order.
func (t *turns) checkQueue(queue []*entry) {
	first := t.l.guard.groups[queue[0].groupKey].first()
	for _, o := range queue {
		if t.waits[o.container.ID].queued < t.waits[first.container.ID].queued {
			t.errorf("%s is before %s in the queue of its group, which has waited longer",
				first.container.Name, o.container.Name)
		}
	}
	t.checkFirst(first)
}

// checkFirst checks the first in the queue of a group.
func (t *turns) checkFirst(e *entry) {
	others, most := t.others(e)
	var on []string
	for _, o := range others {
		if t.down(o) || waitsFor(o, core.WaitRestartBudget) || o.state.Health.Asking() || t.waitsForPlace(o) {
			on = append(on, o.container.Name)
		}
	}
	if len(on) < most {
		t.errorf("%s waits for its group, of which only %v are down or about to be, of %d that may be",
			e.container.Name, on, most)
	}
	if named, more, _ := strings.Cut(e.state.Health.Wait.On, " and "); more == "" {
		names := strings.Split(named, ", ")
		slices.Sort(names)
		if slices.Sort(on); !slices.Equal(names, on) {
			t.errorf("%s waits for %v by the view, and for %v by the rules", e.container.Name, names, on)
		}
	}
}

// waitsForPlace says whether a container waits for the fleet only.
func (t *turns) waitsForPlace(e *entry) bool {
	return waitsFor(e, core.WaitGroupLimit) && e.place.stage == wantsPlace
}

// waitsForGroup says whether a container waits for the members of its group on this host.
func (t *turns) waitsForGroup(e *entry) bool {
	return waitsFor(e, core.WaitGroupLimit) && e.place.stage != wantsPlace
}
