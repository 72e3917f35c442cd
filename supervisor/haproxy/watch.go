package haproxy

import (
	"strings"
	"time"
)

// Most changes are of readiness. For those, healthd asks HAProxy for the servers of the containers that changed, and takes
// the others for what the last whole look has shown: in a backend of 10,000 servers, that costs a thousandth. What HAProxy
// shows of single servers is not all of their state. So whatever is not as expected is left to a whole look at once.

// watched is a member whose server is looked at by itself.
type watched struct {
	member  *member
	server  *server
	touched bool // the member has changed: its server may get commands
}

// watchMost is how many servers are watched in a backend of so many: to look at all of them is cheaper then.
func watchMost(servers int) int {
	const least, part = 4, 8
	return max(least, min(servers/part, maxWatched))
}

const maxWatched = 64

// watch chooses the servers of a backend to look at by themselves. It returns false when the backend needs a whole look.
func (l *instance) watch(k *look) bool {
	most := watchMost(len(k.b.servers))
	if len(k.roll.touched) > most {
		return false
	}
	names := make(map[string]bool, most)
	if len(k.roll.touched)+len(k.b.watched) <= most { // else whole looks come for those
		for name := range k.b.watched {
			names[name] = false
		}
	}
	for name := range k.roll.touched {
		names[name] = true
	}
	p := l.newPlan(k.name, k.b, k.b.servers)
	for i := range k.members {
		m := &k.members[i]
		touched, ok := names[m.name]
		if !ok {
			continue
		}
		s := k.b.server[m.name]
		if s == nil || !p.followsReadiness(s, m) || k.b.openProblems[s.key(k.name)] != nil {
			return false
		}
		k.watched = append(k.watched, watched{m, s, touched})
		if len(k.watched) == len(names) {
			break
		}
	}
	return len(k.watched) == len(names) && len(names) > 0
}

// followsReadiness says that the server has all that it needs of its member but what readiness decides.
func (p *plan) followsReadiness(s *server, m *member) bool {
	switch {
	case m.duplicateName || m.unreached || s.setAside() || s.agentState&checkEnabled == 0 || s.agentAddress.port != p.agent.port:
		return false
	case !p.isSlot(s) && !p.addedByHealthd(s):
		return p.leadsTo(s, m) && (!p.mayBeKeptOut(s) || p.agentSend[s.name] == m.agentName)
	}
	return !s.free() && p.agentSend[s.name] == m.agentName && (!m.reachable() || s.address == m.address && s.port == m.port)
}

// readWatched takes in what HAProxy shows of the watched servers. It returns false, and has a whole look come, when it is
// not as expected.
func (k *look) readWatched(answers []string) bool {
	k.servers = k.b.servers
	for i, w := range k.watched {
		shown := *w.server
		if _, err := readStat(answers[i], []*server{&shown}); err != nil || strings.HasPrefix(shown.status, "MAINT") || strings.HasPrefix(shown.status, "DRAIN") {
			k.b.needWhole(k.roll)
			return false
		}
		shown.status, shown.checkStatus = strings.Clone(shown.status), strings.Clone(shown.checkStatus)
		// The next whole look shows nothing new, and must be planned all the same.
		k.b.settled = k.b.settled && sameServer(w.server, &shown)
		*w.server = shown
	}
	return true
}

// needWhole has a whole look come as soon as one may, which is not before notBefore. Until then, what is watched and what was
// touched waits with it: to ask for them again at once would show the same.
func (b *backendState) needWhole(r *roll) {
	r.remade = true
	clear(r.touched)
	b.watchAt = later(b.watchAt, b.notBefore)
}

// planWatched plans what the watched servers get. One that has not changed should not need anything: whatever it may be,
// it is left to a whole look.
func (l *instance) planWatched(k *look) {
	k.plan = l.newPlan(k.name, k.b, k.b.servers)
	k.plan.server = k.b.server
	for _, w := range k.watched {
		n := len(k.plan.commands)
		k.plan.applyWant(w.server, w.member)
		if !w.touched && len(k.plan.commands) > n {
			k.plan.commands = k.plan.commands[:n]
			k.b.needWhole(k.roll)
		}
		k.plan.noteRaised(w.member, n)
	}
	k.commands = k.plan.commands
}

// finishWatched takes in the outcome of a look that took so long.
func (k *look) finishWatched(done, failed map[string]string, took time.Duration, now time.Time) {
	b := k.b
	clear(k.roll.touched) // other members wait for a whole look
	b.endRepeats(done)
	for _, w := range k.watched {
		about := w.server.key(k.name)
		switch {
		case failed[about] != "", done[about] == "" && k.cut:
			b.needWhole(k.roll)
		case done[about] != "":
			switch w.member.want { // the weight is not among what single servers show
			case wantDrain:
				if !b.sticky {
					w.server.weight = 0
				}
			case wantUp:
				if w.server.weight == 0 {
					w.server.weight = w.server.initialWeight
				}
			}
			b.watched[w.member.name] = later(now, b.watched[w.member.name])
		case !w.member.awaitsDrain && !b.watched[w.member.name].After(now):
			delete(b.watched, w.member.name)
		}
		if w.member.awaitsDrain {
			b.watched[w.member.name] = later(now, b.watched[w.member.name])
		}
	}
	b.observe(k, done)
	if len(b.watched) <= watchMost(len(b.servers)) { // else whole looks come for those
		b.watchAt = now.Add(max(pollSoon, busy(took)))
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
