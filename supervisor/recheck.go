package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// The loop looks at all groups and at all who wait for the budget, some of them at a time,
// also when no message concerns them.
const (
	recheckEvery = time.Second           // from the end of one look to the next one
	recheckNext  = 10 * time.Millisecond // from some of them to the next ones
)

// recheckWaiting lets the containers go on that need not wait any more, longest wait
// first.
func (l *loop) recheckWaiting(now time.Time) {
	l.guard.expire(now)
	due := !now.Before(l.recheckAt)
	switch {
	case l.guard.waiting == 0:
		l.guard.toRecheck() // else they would pile up until somebody waits, also those that are gone
		return
	case !due && !l.guard.changed():
		return
	}
	if due {
		l.guard.recheckSome()
	}
	s := l.newSlice()
	l.recheckGroups(now, &s)
	l.recheckBudget(now, &s)
	if !due {
		return
	}
	for _, e := range l.guard.budget.toShow() {
		l.showWait(e, now)
	}
	l.recheckAt = now.Add(recheckNext)
	if l.guard.endLook() {
		l.recheckAt = now.Add(recheckEvery)
	}
}

// recheckGroups looks at the groups that may have changed. What is left of them when the
// slice is over comes with the next turn.
func (l *loop) recheckGroups(now time.Time, s *slice) {
	groups := l.guard.toRecheck()
	for len(groups) > 0 && s.next() {
		l.recheckGroup(groups[0], now, s)
		groups = groups[1:]
	}
	for _, m := range groups {
		l.guard.recheckLater(m)
	}
}

func (l *loop) recheckGroup(m *group, now time.Time, s *slice) {
	for i, e := range m.wantingInOrder() {
		if l.guard.wait(e, now); i < shownWaits || e.place.next != wantsPlace {
			l.showWait(e, now)
		}
	}
	for e := m.first(); e != nil && !m.blocks(e, now); {
		l.step(e, &core.Input{Kind: core.Tick})
		next := m.first()
		if next == e { // it may go, but something else holds it
			break
		}
		if e = next; !s.next() {
			l.guard.recheckLater(m)
			return
		}
	}
	var first []*entry
	for at := m.waiting.Front(); at != nil && len(first) < shownWaits; at = at.Next() {
		first = append(first, at.Value.(*entry))
	}
	for _, e := range first {
		l.showWait(e, now)
	}
}

func (l *loop) recheckBudget(now time.Time, s *slice) {
	b := &l.guard.budget
	b.changed = false
	for e := b.turns.first(); e != nil && b.free(now) > b.asking.Len(); {
		l.step(e, &core.Input{Kind: core.Tick})
		next := b.turns.first()
		if next == e {
			break
		}
		if e = next; !s.next() {
			b.changed = true
			return
		}
	}
}

// showWait has the view of a waiting container say what it waits for now.
func (l *loop) showWait(e *entry, now time.Time) {
	if e.place.began > 0 && (l.guard.wait(e, now) != e.state.Health.Wait || e.place.stage != e.place.next) {
		l.step(e, &core.Input{Kind: core.Tick})
	}
}
