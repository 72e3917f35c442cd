package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// guard decides who may be restarted now of those whose probes ask for it. It is the
// loop's.
type guard struct {
	limit             core.Guard
	granted           []time.Time // within limit.Window, oldest first
	groups            map[string]*guarded
	waiting           []*entry // for the budget or their group, longest first
	changed           bool     // somebody may no longer have to wait
	exhaustedRecorded bool     // that the budget is used up
}

// guarded are the containers of one group.
type guarded struct {
	all     []*entry
	waiting []*entry // longest first
}

// maxOutage is how long a container counts as down at most: its labels, which say how
// long it may need, are not to hold up the others of its group for days.
const maxOutage = 15 * time.Minute

// maxGranted is how many of its own restarts are kept with a container.
const maxGranted = 100

func newGuard(limit core.Guard) *guard {
	return &guard{limit: limit, groups: make(map[string]*guarded)}
}

// join makes e a member of its group, if it has a spec; leave takes it out.
func (g *guard) join(e *entry) {
	if e.spec == nil {
		return
	}
	m := g.groups[e.group]
	if m == nil {
		m = &guarded{}
		g.groups[e.group] = m
	}
	m.all = append(m.all, e)
}

func (g *guard) leave(e *entry) {
	m := g.groups[e.group]
	if m == nil {
		return
	}
	g.unqueue(e)
	if m.all = without(m.all, e); len(m.all) == 0 {
		delete(g.groups, e.group)
	}
}

// move takes a member of the group from to the one that is its own now. It keeps its
// place among those who wait.
func (g *guard) move(e *entry, from string) {
	if e.group == from {
		return
	}
	m := g.groups[from]
	waits := slices.Contains(m.waiting, e)
	m.waiting = without(m.waiting, e)
	if m.all = without(m.all, e); len(m.all) == 0 {
		delete(g.groups, from)
	}
	g.join(e)
	if m = g.groups[e.group]; waits {
		m.waiting = append(m.waiting, e)
	}
	g.changed = true
}

// wait says what a restart of e that a probe asks for has to wait for.
func (g *guard) wait(e *entry, now time.Time) core.Wait {
	if w := g.groupWait(e, now); w.Reason != "" {
		return w
	}
	if g.limit.MaxRestarts <= 0 {
		return core.Wait{}
	}
	g.granted = slices.DeleteFunc(g.granted, g.over(now))
	free := g.limit.MaxRestarts - len(g.granted) - g.ahead(e)
	if free > 0 {
		return core.Wait{}
	}
	w := core.Wait{Reason: core.WaitRestartBudget, On: fmt.Sprintf("the host's budget of %d restarts in %v", g.limit.MaxRestarts, g.limit.Window)}
	if len(g.granted) > 0 {
		w.Until = g.granted[0].Add(g.limit.Window)
	}
	return w
}

// over says of a restart that was granted whether it no longer counts.
func (g *guard) over(now time.Time) func(time.Time) bool {
	return func(at time.Time) bool { return !now.Before(at.Add(g.limit.Window)) }
}

// loadGranted lets the restarts count that earlier daemons have granted.
func (g *guard) loadGranted(past []core.Memory, now time.Time) {
	for _, m := range past {
		for _, at := range m.Granted {
			g.granted = append(g.granted, earlier(at, now)) // should the clock have been set back
		}
	}
	g.granted = slices.DeleteFunc(g.granted, g.over(now))
	slices.SortFunc(g.granted, time.Time.Compare)
}

// grant notes that a restart of e was begun which a probe asked for.
func (g *guard) grant(e *entry, now time.Time) {
	e.down = core.Outage{Run: e.state.Run.ID, Since: now}
	if g.limit.MaxRestarts <= 0 {
		return
	}
	g.granted = append(g.granted, now)
	lately := append(slices.DeleteFunc(slices.Clone(e.granted), g.over(now)), now)
	e.granted = lately[max(0, len(lately)-maxGranted):]
}

// groupWait says whether too many of e's group are down already, or are to be
// restarted before it.
func (g *guard) groupWait(e *entry, now time.Time) core.Wait {
	m := g.groups[e.group]
	if len(m.all) == 1 {
		return core.Wait{}
	}
	w := core.Wait{Reason: core.WaitGroupLimit}
	var on nameList
	for _, other := range m.all {
		down, until := other.outage(now)
		if other == e || !down {
			continue
		}
		on.add(other)
		if !until.IsZero() && (w.Until.IsZero() || until.Before(w.Until)) {
			w.Until = until
		}
	}
	for _, other := range m.waiting {
		if other == e {
			break
		}
		if down, _ := other.outage(now); !down { // else it is counted already
			on.add(other)
		}
	}
	if on.n < e.spec.Group.MaxUnavailable.Of(len(m.all)) {
		return core.Wait{}
	}
	w.On = on.String()
	return w
}

// nameList are containers to be listed for people, who do not want to read a long list.
type nameList struct {
	first [5]*entry
	n     int
}

func (t *nameList) add(e *entry) {
	if t.n < len(t.first) {
		t.first[t.n] = e
	}
	t.n++
}

func (t *nameList) String() string {
	var names []string
	for _, e := range t.first[:min(t.n, len(t.first))] {
		names = append(names, e.container.Name)
	}
	text := strings.Join(names, ", ")
	if more := t.n - len(t.first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// update notes what came of a step of e: it is being restarted now, or waits.
func (g *guard) update(e *entry, before core.Cause, now time.Time) {
	s := &e.state
	switch is, _ := e.outage(now); {
	case before == core.NoCause && s.Action.Stopping.ByProbe():
		g.grant(e, now)
	case e.down != core.Outage{} && !is:
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

// exhausted says, once each time, that somebody waits for the budget of the host.
func (g *guard) exhausted() bool {
	waits := slices.ContainsFunc(g.waiting, func(e *entry) bool { return e.state.Health.Wait.Reason == core.WaitRestartBudget })
	first := waits && !g.exhaustedRecorded
	g.exhaustedRecorded = waits
	return first
}

// outage says whether e is down because a probe asked for its restart, and until
// when it is taken to be at most: it must be ready again, or have had all the time
// that it may need for that. Of a restart still under way nobody knows the end.
func (e *entry) outage(now time.Time) (down bool, until time.Time) {
	s, last := &e.state, e.down.Since.Add(maxOutage)
	switch {
	case e.down == core.Outage{}:
		return false, time.Time{}
	case s.Settled() && (s.Run.ID == e.down.Run || !s.Engine.State.Alive()):
		return false, time.Time{} // it was spared, or has ended for good
	case s.Run.ID == e.down.Run:
		return now.Before(last), time.Time{}
	case s.Conditions.Ready.Status:
		return false, time.Time{}
	}
	until = earlier(s.Health.BeganAt.Add(e.spec.TimeToReady()), last)
	return now.Before(until), until
}

// ahead counts those who wait for the budget longer than e. Who waits for its group
// keeps its place, but keeps nobody else waiting.
func (g *guard) ahead(e *entry) int {
	n := 0
	for _, other := range g.waiting {
		if other == e {
			break
		}
		if other.state.Health.Wait.Reason == core.WaitRestartBudget {
			n++
		}
	}
	return n
}

func without(list []*entry, e *entry) []*entry {
	return slices.DeleteFunc(list, func(other *entry) bool { return other == e })
}
