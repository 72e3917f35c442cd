package supervisor

import (
	"fmt"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// group is the containers of which only max_unavailable may be down at once for failed
// probes.
type group struct {
	members []*entry
	waiting []*entry // longest wait first
}

// wait returns the wait for the group when too many members are down, or are to be
// restarted before e.
func (m *group) wait(e *entry, now time.Time) core.Wait {
	if len(m.members) == 1 {
		return core.Wait{}
	}
	w := core.Wait{Reason: core.WaitGroupLimit}
	var on nameList
	for _, other := range m.members {
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
		if down, _ := other.outage(now); !down { // else it is on the list already
			on.add(other)
		}
	}
	if on.n < e.spec.Group.MaxUnavailable.Of(len(m.members)) {
		return core.Wait{}
	}
	w.On = on.String()
	return w
}

// maxOutage is how long a container counts as down at most. Labels set how long a
// container may take to become ready, and must not block its group for days.
const maxOutage = 15 * time.Minute

// outage says whether e counts as down for a failed probe, and until when at most. The
// outage ends when e is ready again or has used up its startup budget. until is zero
// while the restart is still under way.
func (e *entry) outage(now time.Time) (down bool, until time.Time) {
	s, last := &e.state, e.down.Since.Add(maxOutage)
	switch {
	case e.down == core.Outage{}:
		return false, time.Time{}
	case s.Settled() && (s.Run.ID == e.down.Run || !s.Engine.State.Alive()):
		return false, time.Time{} // the restart was given up, or the container stays stopped
	case s.Run.ID == e.down.Run:
		return now.Before(last), time.Time{}
	case s.Conditions.Ready.Status:
		return false, time.Time{}
	}
	until = earlier(s.Health.BeganAt.Add(e.spec.TimeToReady()), last)
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
	for _, e := range t.first[:min(t.n, len(t.first))] {
		names = append(names, e.container.Name)
	}
	text := strings.Join(names, ", ")
	if more := t.n - len(t.first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
