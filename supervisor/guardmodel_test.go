package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// guardModel knows the rules of docs/semantics.md, "Whose turn it is", and what has
// happened. It looks at all containers each time.
type guardModel struct {
	g         *guardGame
	startedAt time.Time
	outages   map[string]core.Outage // by container ID
	granted   []time.Time            // restarts for failed probes, oldest first
	waits     map[string]modelWait   // by container ID
	begun     int                    // waits so far
}

// modelWait is the wait of one container. It has a place in each queue that it is in.
type modelWait struct {
	began  int    // in the queue of the host
	queued int    // in the queue of the group
	group  string // empty: in none
}

func newGuardModel(g *guardGame) *guardModel {
	return &guardModel{g: g, startedAt: time.Now(), outages: make(map[string]core.Outage), waits: make(map[string]modelWait)}
}

func (m *guardModel) errorf(format string, args ...any) {
	m.g.t.Errorf("%v: %s", time.Since(m.startedAt), fmt.Sprintf(format, args...))
}

// down says whether a container is down for a failed probe.
func (m *guardModel) down(e *entry) bool {
	o, ok := m.outages[e.container.ID]
	return ok && stillDown(e.state, e.spec, o)
}

// stillDown says whether a container is down for the restart that began that outage.
func stillDown(s *core.State, spec *core.Spec, o core.Outage) bool {
	switch {
	case time.Since(o.Since) >= 15*time.Minute:
		return false
	case s.Settled() && !s.Shutdown.LeftOver && (s.Run.ID == o.Run || !s.Engine.State.Alive()):
		return false
	case s.Run.ID == o.Run:
		return true
	}
	return !s.Conditions.Ready.Status && time.Now().Before(s.Run.BeganAt.Add(spec.TimeToReady()))
}

// endOutages forgets the outages that are over: they do not come back.
func (m *guardModel) endOutages() {
	for id := range m.outages {
		if e := m.g.l.entries[id]; e == nil || !m.down(e) {
			delete(m.outages, id)
		}
	}
}

func waitsFor(e *entry, reason string) bool {
	return e.state.Health.Failed != core.NoCause && e.state.Health.Wait.Reason == reason
}

// others returns the other members of e's group, and how many may be down at once.
func (m *guardModel) others(e *entry) (others []*entry, most int) {
	for _, o := range m.g.l.entries {
		if o != e && m.groupOf(o.container.ID) == m.groupOf(e.container.ID) {
			others = append(others, o)
		}
	}
	if len(others) == 0 {
		return nil, 1
	}
	return others, e.spec.Group.MaxUnavailable.Of(len(others) + 1)
}

// groupOf returns the group that the newest specs name, even if the loop is not as far.
func (m *guardModel) groupOf(id string) string { return m.g.specs[m.g.engine.names[id]].Group.Name }

// members returns how many containers a group has, whether the daemon has seen them or not.
func (m *guardModel) members(group string) (n int) {
	for _, id := range m.g.present {
		if m.groupOf(id) == group {
			n++
		}
	}
	return n
}

// ofBudget returns how many restarts count in the budget now.
func (m *guardModel) ofBudget() int {
	return len(m.granted) - slices.IndexFunc(append(m.granted, time.Now()), func(at time.Time) bool { return time.Since(at) < m.g.limit.Window })
}

// recorded is called with each event. It checks the restarts for failed probes.
func (m *guardModel) recorded(ev core.Event) {
	if ev.Reason != core.EventKilling {
		return
	}
	var e *entry
	for _, o := range m.g.l.entries {
		if o.container.Name == ev.Container {
			e = o
		}
	}
	if !e.state.Action.Stopping.ByProbe() {
		return
	}
	m.checkRestart(e)
	m.outages[e.container.ID] = core.Outage{Run: e.state.Run.ID, Since: time.Now()}
	delete(m.waits, e.container.ID)
	if m.g.limit.MaxRestarts > 0 {
		m.granted = append(m.granted, time.Now())
	}
}

// checkRestart checks a restart for a failed probe that begins now.
func (m *guardModel) checkRestart(e *entry) {
	others, most := m.others(e)
	var down []string
	for _, o := range others {
		if m.down(o) {
			down = append(down, o.container.Name)
		}
	}
	for id := range m.outages { // the daemon has just begun and has not seen it yet
		if m.g.l.entries[id] == nil && slices.Contains(m.g.present, id) && m.groupOf(id) == m.groupOf(e.container.ID) {
			down, most = append(down, id), e.spec.Group.MaxUnavailable.Of(m.members(m.groupOf(id)))
		}
	}
	if g := e.spec.Group; g.Fleet {
		if state := m.g.places.State(e.container.ID); !state.Granted && (g.FleetWait || !state.Unreachable) {
			m.errorf("%s is restarted without a place of the fleet: %+v", e.container.Name, state)
		}
	}
	if len(down) >= most {
		m.errorf("%s is restarted, and %v of its group are down already, of which %d may be", e.container.Name, down, most)
	}
	if most := m.g.limit.MaxRestarts; most > 0 && m.ofBudget() >= most {
		m.errorf("%s is restarted, and %d restarts of %d were granted already", e.container.Name, m.ofBudget(), most)
	}
	w := m.waits[e.container.ID]
	var first []string
	for _, o := range m.g.l.entries {
		before := m.waits[o.container.ID]
		if waitsFor(o, core.WaitRestartBudget) && o != e && before.began > 0 && (w.began == 0 || before.began < w.began) {
			first = append(first, o.container.Name)
		}
	}
	if len(first) > 0 && len(first) >= m.g.limit.MaxRestarts-m.ofBudget() {
		m.errorf("%s is restarted before %v, which have waited longer for the budget", e.container.Name, first)
	}
}

// checkWaits checks everybody who waits, when there is nothing left to do.
func (m *guardModel) checkWaits() {
	for _, text := range m.g.l.inconsistencies() {
		m.errorf("%s", text)
	}
	m.noteWaits()
	m.checkPlaces()
	byGroup := make(map[string][]*entry)
	for _, e := range m.g.l.entries {
		switch {
		case m.waitsForGroup(e):
			byGroup[e.group] = append(byGroup[e.group], e)
		case waitsFor(e, core.WaitRestartBudget) && m.ofBudget() < m.g.limit.MaxRestarts:
			m.errorf("%s waits for the budget, of which %d of %d are used", e.container.Name, m.ofBudget(), m.g.limit.MaxRestarts)
		}
	}
	for _, queue := range byGroup {
		first := m.g.l.guard.groups[queue[0].group].first()
		for _, o := range queue { // those that came at the same time may have any order
			if m.waits[o.container.ID].queued < m.waits[first.container.ID].queued {
				m.errorf("%s is before %s in the queue of its group, which has waited longer", first.container.Name, o.container.Name)
			}
		}
		m.checkFirst(first)
	}
}

// noteWaits notes who waits now, and where.
func (m *guardModel) noteWaits() {
	m.begun++
	for _, id := range m.g.present {
		e := m.g.l.entries[id]
		wait, before := e.state.Health.Wait, m.waits[id]
		switch failed := e.state.Health.Failed != core.NoCause; {
		case failed != (wait.Reason != ""), e.state.Lasting.Held() && failed != (wait.Reason == core.WaitHeld):
			m.errorf("%s has failed: %v, and waits for %+v", e.container.Name, failed, wait)
		case !failed, wait.Reason == core.WaitHeld:
			delete(m.waits, id)
			continue
		}
		w := modelWait{began: cmp.Or(before.began, m.begun)}
		if m.waitsForGroup(e) {
			w.group, w.queued = e.group, m.begun
			if before.group == e.group {
				w.queued = before.queued
			}
		}
		m.waits[id] = w
	}
}

// checkFirst checks the first in the queue of a group.
func (m *guardModel) checkFirst(e *entry) {
	others, most := m.others(e)
	var on []string
	for _, o := range others {
		if m.down(o) || waitsFor(o, core.WaitRestartBudget) || m.waitsForPlace(o) {
			on = append(on, o.container.Name)
		}
	}
	if len(on) < most {
		m.errorf("%s waits for its group, of which only %v are down or about to be, of %d that may be", e.container.Name, on, most)
	}
	if named, more, _ := strings.Cut(e.state.Health.Wait.On, " and "); more == "" {
		names := strings.Split(named, ", ")
		slices.Sort(names)
		if slices.Sort(on); !slices.Equal(names, on) {
			m.errorf("%s waits for %v by the view, and for %v by the rules", e.container.Name, names, on)
		}
	}
}
