package supervisor

import (
	"container/list"
	"fmt"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// group is the containers of which only max_unavailable may be down at once for failed
// probes.
type group struct {
	members   int
	down      entryHeap  // the outage that ends first comes first
	away      int        // members that are down, or wait for the fleet or the host's budget and go down next
	waiting   *list.List // of *entry, longest wait first
	wanting   entryHeap  // wait for a place of the fleet, longest wait first
	queued    int        // place in guard.queued from 1; 0: it is not there
	rechecked bool       // it is in guard.recheck
}

func newGroup() *group {
	return &group{
		waiting: list.New(),
		down: entryHeap{
			less:  func(a, b *entry) bool { return a.outageEnd().Before(b.outageEnd()) },
			place: func(e *entry) *int { return &e.place.down },
		},
		wanting: entryHeap{
			less:  func(a, b *entry) bool { return a.place.began < b.place.began },
			place: func(e *entry) *int { return &e.place.wanting },
		},
	}
}

// shownWaits is how many of the first containers in a queue show whom they wait for as of
// now. The others show that of the moment when their wait began.
const shownWaits = 8

func (m *group) first() *entry {
	if front := m.waiting.Front(); front != nil {
		return front.Value.(*entry)
	}
	return nil
}

// longest returns the member that has waited longest for the group or the fleet, nil when none waits.
func (m *group) longest() *entry {
	e, wanting := m.first(), m.wanting.first()
	if e == nil || wanting != nil && wanting.place.began < e.place.began {
		return wanting
	}
	return e
}

// most is how many members may be down at once, as seen by e.
func (m *group) most(e *entry) int {
	most := e.spec.Group.MaxUnavailable.Of(m.members)
	if e.spec.Group.Fleet {
		most = min(most, MaxPlaces) // more could not get a place
	}
	return most
}

// blocks says whether too many members are down, or are to be restarted before e, for e to
// be restarted now.
func (m *group) blocks(e *entry, now time.Time) bool {
	if m.members == 1 {
		return false
	}
	m.expire(now)
	before := 0
	switch {
	case e.place.passed(): // it is before all others, unless the group allows less by now
		return m.downWithout(e) >= m.most(e)
	case e.place.inGroup == nil:
		before = m.waiting.Len()
	case m.first() != e:
		return true
	}
	return m.used(e)+before >= m.most(e)
}

// used is how many other members are down, or may go down before those in waiting.
func (m *group) used(e *entry) int {
	if e.place.away {
		return m.away - 1
	}
	return m.away
}

func (m *group) downWithout(e *entry) int {
	if m.down.has(e) {
		return m.down.Len() - 1
	}
	return m.down.Len()
}

// recount takes in that e has gone down or up, or has passed the group's limit or no longer has.
func (m *group) recount(e *entry) {
	if away := e.place.down > 0 || e.place.passed(); away != e.place.away {
		if e.place.away = away; away {
			m.away++
		} else {
			m.away--
		}
	}
}

// wait returns the wait of e, which the group blocks.
func (m *group) wait(e *entry) core.Wait {
	before := m.before(e)
	if before < 0 { // it stands further behind
		return e.state.Health.Wait
	}
	on := m.usedBy(e)
	i := 0
	for at := m.waiting.Front(); at != nil && i < min(before, shownWaits); at = at.Next() {
		if other := at.Value.(*entry); !other.place.away { // else it is on the list already
			on.add(other)
		}
		i++
	}
	on.n += before - i
	w := core.Wait{Reason: core.WaitGroupLimit, On: on.String()}
	if first := m.down.first(); first != nil && before < shownWaits {
		w.Until = first.place.until
	}
	return w
}

// usedBy lists the members that used counts. It names only those that are down or want a place
// of the fleet, and only as many as a list shows.
func (m *group) usedBy(e *entry) (on nameList) {
	for _, other := range m.down.entries[:min(m.down.Len(), len(on.first)+1)] {
		if other != e {
			on.add(other)
		}
	}
	for _, other := range m.wanting.entries[:min(m.wanting.Len(), len(on.first)+1)] {
		if other != e && other.place.down == 0 { // else it is on the list already
			on.add(other)
		}
	}
	on.n = m.used(e)
	return on
}

// before returns how many members wait before e; -1 when they are many.
func (m *group) before(e *entry) int {
	if e.place.inGroup == nil {
		return m.waiting.Len()
	}
	at := m.waiting.Front()
	for i := range shownWaits {
		if at == nil || at == e.place.inGroup {
			return i
		}
		at = at.Next()
	}
	return -1
}

// updateDown takes in whether e is down, and says whether it no longer is.
func (m *group) updateDown(e *entry, now time.Time) (up bool) {
	down, until := e.outage(now)
	if down {
		e.place.until = until
		m.down.put(e)
		m.recount(e)
		return false
	}
	return m.endOutage(e)
}

// endOutage says that e is no longer down, whatever its later runs do. It returns false if it was not down.
func (m *group) endOutage(e *entry) bool {
	if m.down.has(e) {
		e.place.until = e.outageEnd() // by which guard.placed has it
	}
	e.down = core.Outage{}
	up := m.down.remove(e)
	m.recount(e)
	return up
}

// expire takes out the members whose outage has lasted as long as it may.
func (m *group) expire(now time.Time) {
	for e := m.down.first(); e != nil && !now.Before(e.outageEnd()); e = m.down.first() {
		m.endOutage(e)
	}
}

// maxOutage is how long a container counts as down at most. Labels set how long a
// container may take to become ready, and must not block its group for days.
const maxOutage = 15 * time.Minute

// outageEnd is when an entry that is down counts as up again at the latest.
func (e *entry) outageEnd() time.Time {
	if !e.place.until.IsZero() {
		return e.place.until
	}
	return e.down.Since.Add(maxOutage)
}

// outage says whether e counts as down for a failed probe, and until when at most. The
// outage ends when e is ready again or has used up its startup budget. until is zero
// while the restart is still under way.
func (e *entry) outage(now time.Time) (down bool, until time.Time) {
	s, last := e.state, e.down.Since.Add(maxOutage)
	switch {
	case e.down == core.Outage{}:
		return false, time.Time{}
	case e.spec.ManagedElsewhere != "" && s.Settled() && !s.Engine.State.Alive():
		// Until the one that takes its place may be ready.
		until = earlier(s.Run.EndedAt.Add(e.spec.TimeToReady()), last)
		return now.Before(until), until
	case s.Settled() && !s.Shutdown.LeftOver && !s.StopLeft() && (s.Run.ID == e.down.Run || !s.Engine.State.Alive()):
		return false, time.Time{} // the restart was given up, or the container stays stopped
	case s.Run.ID == e.down.Run:
		return now.Before(last), time.Time{}
	case s.Conditions.Ready.Status:
		return false, time.Time{}
	}
	until = earlier(s.Run.BeganAt.Add(e.spec.TimeToReady()), last)
	return now.Before(until), until
}

// nameList is a list of container names for people, cut after five.
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
	for _, e := range t.first {
		if e != nil {
			names = append(names, e.container.Name)
		}
	}
	text := strings.Join(names, ", ")
	if more := t.n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
