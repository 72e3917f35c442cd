package haproxy

import (
	"cmp"
	"slices"
	"time"
)

const (
	aliveInterval = 200 * time.Millisecond // between checks whether HAProxy is still the same process
	pollInterval  = time.Second            // between whole looks at a backend
	pollSoon      = 50 * time.Millisecond  // until the look after a command, and while a stop waits for the last request
	pollSoonFor   = 2 * time.Second        // how long to look often at a server that got a container: an old answer of its agent check may still come
	retryMin      = 50 * time.Millisecond
	retryMax      = time.Second
	// reloadGrace is how long after a reload the old process may still have requests under
	// way, which the new process does not show.
	reloadGrace = 30 * time.Second

	// Whole looks that nothing calls for take one part of the time in so many, for all backends together. They
	// come at least each maxPollInterval.
	idleShare       = 20
	maxPollInterval = 10 * time.Second
	// After a whole look, the next one at the same backend waits so many times as long as it took, and maxPollInterval at
	// most: HAProxy or healthd may have stood still meanwhile. Readiness does not need one: see watch.go.
	busyShare = 4
	// Whole looks that are due within that time come along with others: what a sync costs besides is shared.
	alongWith = 100 * time.Millisecond
	// Whole looks of one sync are at so many servers, or at one backend. Changes that come meanwhile wait.
	serversAtOnce = 512
	// Commands of one sync go on for so long, or for so many times as long as its looks took. The next sync plans
	// the others anew.
	executeFor     = 100 * time.Millisecond
	executePerLook = 4
)

// idleInterval is how long a backend is not looked at when nothing calls for it.
func (l *instance) idleInterval() time.Duration {
	return max(pollInterval, min(idleShare*l.lookTime(), maxPollInterval))
}

// soonInterval is that after commands of which HAProxy has to show the effect.
func (l *instance) soonInterval() time.Duration {
	return max(pollSoon, min(busyShare*l.lookTime(), pollInterval))
}

// busy is how long a backend is left alone after a look that took so long.
func busy(took time.Duration) time.Duration { return min(busyShare*took, maxPollInterval) }

// lookTime is what whole looks at all backends take.
func (l *instance) lookTime() (sum time.Duration) {
	for _, b := range l.backends {
		sum += b.took
	}
	return sum
}

// nextLook says when the backend is to be looked at, and whether as a whole.
func (b *backendState) nextLook(r *roll, now time.Time) (at time.Time, whole bool) {
	at = b.pollAt
	if r.remade || b.servers == nil {
		at = time.Time{}
	}
	if at.Before(b.notBefore) {
		at = b.notBefore
	}
	if !at.After(now) || b.servers == nil {
		return at, true
	}
	switch {
	case len(r.touched) > 0:
		return now, false
	case len(b.watched) > 0 && b.watchAt.Before(at):
		return b.watchAt, false
	}
	return at, true
}

// pause returns the time until the next sync if nothing changes.
func (l *instance) pause(now time.Time) time.Duration {
	const least = 100 * time.Microsecond
	d := aliveInterval
	for name, b := range l.backends {
		at, _ := b.nextLook(l.roster.roll(name), now)
		d = min(d, at.Sub(now))
	}
	return max(d, least)
}

// choose returns the looks that are due: those at single servers, and whole ones, of which some may have to wait for the
// next sync.
func (l *instance) choose(now time.Time) (looks []*look) {
	for name, r := range l.roster.backends {
		switch {
		case l.backends[name] != nil:
		case len(r.members) > 0:
			l.backends[name] = newBackendState()
		default:
			delete(l.roster.backends, name)
		}
	}
	l.behind = false
	var wholes, along []*look
	for name, b := range l.backends {
		r := l.roster.roll(name)
		at, whole := b.nextLook(r, now)
		k := look{name: name, b: b, roll: r, members: r.members, whole: whole, due: at}
		switch {
		case at.After(now):
			l.behind = l.behind || r.changed()
			if whole && !b.pollAt.After(now.Add(alongWith)) && !b.notBefore.After(now) {
				along = append(along, new(k))
			}
		case !whole && l.watch(&k):
			looks = append(looks, new(k))
			l.behind = l.behind || r.remade
		case now.Before(b.notBefore):
			b.needWhole(r)
			l.behind = true
		default:
			k.whole, k.watched = true, nil
			wholes = append(wholes, new(k))
		}
	}
	return append(looks, l.chooseWholes(wholes, along, now)...)
}

// chooseWholes returns as many of the whole looks that are due as a sync has time for: those at backends that have changed, or
// wait for long, come first, each in its turn. Those along come only with others.
func (l *instance) chooseWholes(due, along []*look, now time.Time) []*look {
	if len(due) == 0 {
		return nil
	}
	first := func(k *look) int {
		if k.roll.changed() || now.Sub(k.b.pollAt) > maxPollInterval {
			return 0
		}
		return 1
	}
	due = append(due, along...)
	slices.SortFunc(due, func(a, b *look) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), a.due.Compare(b.due), cmp.Compare(a.name, b.name))
	})
	servers := 0
	chosen := due[:0]
	for _, k := range due {
		if servers > 0 && servers+k.size() > serversAtOnce {
			l.behind = l.behind || k.roll.changed()
			continue
		}
		servers += k.size()
		chosen = append(chosen, k)
	}
	return chosen
}
