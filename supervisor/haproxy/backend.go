package haproxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// backendState is what an instance keeps about one backend.
type backendState struct {
	servers   []*server            // as last shown; nil: a whole look must come first
	server    map[string]*server   // member → its server, of the newest plan
	settled   bool                 // that plan found nothing to do
	complete  bool                 // it knew all containers
	pollAt    time.Time            // of the next whole look
	notBefore time.Time            // no whole look comes earlier
	took      time.Duration        // what the newest whole look took
	watched   map[string]time.Time // members whose servers are looked at by themselves, at least once and until then
	watchAt   time.Time

	slots         map[string]string       // member → its slot
	agentSend     map[string]string       // server → its agent-send in this process
	owners        map[string]string       // server → ID of its container
	recordedSlots map[string]string       // slots of the newest EventServer of each member
	wasSetAside   map[string]bool         // servers in drain or maint
	down          map[string]checkedDown  // servers that are to be up and HAProxy's own check has down
	idlePolls     map[runtime.Run]int     // looks in a row that showed no request under way
	lastUp        string                  // ID of the container that is the last one up
	missing       bool                    // HAProxy has no such backend
	sticky        bool                    // see plan
	repeats       map[string]repeat       // by subject
	openProblems  map[string]*openProblem // by subject
}

func newBackendState() *backendState {
	return &backendState{
		slots: map[string]string{}, agentSend: map[string]string{}, idlePolls: map[runtime.Run]int{}, openProblems: map[string]*openProblem{},
		repeats: map[string]repeat{}, owners: map[string]string{}, watched: map[string]time.Time{},
	}
}

// newPlan returns an empty plan for the servers of one backend.
func (l *instance) newPlan(backend string, b *backendState, servers []*server) *plan {
	return &plan{
		backend: backend, servers: servers, agent: l.h.agent, agentOnAllAddresses: l.h.agentOnAllAddresses, newAgentSend: map[string]string{},
		sticky: b.sticky, version: l.process.version, elsewhere: l.roster.network == networkOther, slots: b.slots, agentSend: b.agentSend, wasSetAside: b.wasSetAside, owners: b.owners, ownerOf: func(netip.Addr) string { return "" },
	}
}

// plan computes the commands of a look.
func (l *instance) plan(k *look, board *supervisor.Board, complete bool, now time.Time) {
	b := k.b
	if k.whole {
		b.sticky = k.cookie || l.sticks
	}
	switch {
	case !k.whole:
		l.planWatched(k)
		return
	case b.settled && b.complete == complete && !k.roll.changed() && len(b.watched) == 0 && slices.EqualFunc(b.servers, k.servers, sameServer):
		k.servers = b.servers
		return
	}
	k.plan = l.newPlan(k.name, b, k.servers)
	k.plan.ownerOf, k.plan.cookie = owners(board), k.cookie
	k.plan.gone = func(name string) bool {
		_, err := board.FindMember(name)
		return errors.Is(err, supervisor.ErrUnknownContainer) && board.Knows(name)
	}
	k.plan.complete, k.plan.agentInterval = complete, agentInterval(l.roster.size())
	k.plan.compute(k.members)
	k.commands = b.dueOf(k.plan, now)
}

// sameServer says that a plan has the same to do for two states of a server. Requests come and go: a plan that waits for
// the last one is not settled.
func sameServer(a, b *server) bool {
	x := *a
	x.sessions, x.checkStatus = b.sessions, b.checkStatus
	return x == *b
}

// finish takes in the outcome of a look that took so long: failed has the error of each server whose commands failed.
func (l *instance) finish(k *look, failed map[string]string, took time.Duration) {
	b, now := k.b, time.Now()
	done := commandsBySubject(k.commands)
	if !k.whole {
		k.finishWatched(done, failed, took, now)
		return
	}
	b.took, b.notBefore = took, now.Add(busy(took))
	if k.plan == nil {
		b.pollAt = now.Add(l.idleInterval())
		b.dropRepeats(now)
		return
	}
	k.roll.clear()
	b.keep(k)
	b.observe(k, done)
	b.observeChecks(k, now)
	b.noteAgentSend(k.plan, done, failed)
	l.recordSlots(b, k.plan, k.members)
	b.countRepeats(done, failed, now)
	l.updateProblems(b, k.plan, done, failed, now)
	b.settled = len(k.plan.commands) == 0 && !k.plan.waits && len(k.plan.problems) == 0 && len(b.openProblems) == 0 && k.roll.awaiting == 0
	b.complete = k.plan.complete
	l.schedule(k, now)
	if len(k.members) == 0 && len(b.openProblems) == 0 && !slices.ContainsFunc(k.servers, k.plan.managed) {
		delete(l.backends, k.name)
	}
}

// schedule says when a backend is looked at next, after a whole look.
func (l *instance) schedule(k *look, now time.Time) {
	b := k.b
	for _, name := range k.plan.fresh {
		b.watched[name] = now.Add(pollSoonFor)
	}
	unwatched := false // a drain waits for a whole look
	if k.roll.awaiting > 0 {
		for i := range k.members {
			if m := &k.members[i]; m.awaitsDrain {
				b.watched[m.name] = later(now, b.watched[m.name])
				unwatched = unwatched || k.plan.server[m.name] == nil
			}
		}
	}
	maps.DeleteFunc(b.watched, func(name string, until time.Time) bool { return until.Before(now) || k.plan.server[name] == nil })
	tooMany := len(b.watched) > watchMost(len(b.servers))
	switch {
	case k.cut:
		b.pollAt, b.notBefore = now, now
	case k.plan.pollSoon && len(k.commands) > 0:
		b.pollAt = now
	case len(k.commands) > 0, tooMany, unwatched:
		b.pollAt = now.Add(l.soonInterval())
	default:
		b.pollAt = now.Add(l.idleInterval())
	}
	b.watchAt = now.Add(pollSoon)
	if tooMany {
		b.watchAt = b.pollAt
	}
}

// keep keeps what HAProxy has shown, without the whole text of its answers.
func (b *backendState) keep(k *look) {
	texts := map[string]string{}
	one := func(text string) string {
		kept, ok := texts[text]
		if !ok {
			kept = strings.Clone(text)
			texts[kept] = kept
		}
		return kept
	}
	for i, s := range k.servers {
		if i < len(b.servers) && b.servers[i].name == s.name {
			s.name = b.servers[i].name
		} else {
			s.name = strings.Clone(s.name)
		}
		s.status, s.checkStatus, s.agentAddress.host, s.resolved = one(s.status), one(s.checkStatus), one(s.agentAddress.host), one(s.resolved)
	}
	b.servers, b.server = k.servers, k.plan.server
	if b.servers == nil {
		b.servers = []*server{}
	}
}

// noteAgentSend keeps what agent checks send from now on.
func (b *backendState) noteAgentSend(p *plan, done, failed map[string]string) {
	for server, ask := range p.newAgentSend {
		about := p.backend + "/" + server
		switch {
		case done[about] == "": // it waits
		case ask == "", failed[about] != "":
			delete(b.agentSend, server)
		default:
			b.agentSend[server] = ask
		}
	}
}

// recordSlots records an event for each container that got a slot: the slot's name does not
// show whose it is.
func (l *instance) recordSlots(b *backendState, p *plan, all []member) {
	if len(p.slots) == 0 && len(b.recordedSlots) == 0 {
		return
	}
	for i := range all {
		m := &all[i]
		if slot := p.slots[m.name]; slot != b.recordedSlots[m.name] && slot != "" {
			l.h.journal.Record(core.Event{Time: time.Now(), Container: m.name, Reason: EventServer, Message: fmt.Sprintf(
				"Container %s is server %s/%s of HAProxy at %s", m.name, p.backend, slot, l.socket.text)})
		}
	}
	b.recordedSlots = maps.Clone(p.slots)
}

// observe takes in what HAProxy shows of the members. done are the commands that were executed.
func (b *backendState) observe(k *look, done map[string]string) {
	up, alone := 0, (*server)(nil)
	for _, s := range k.servers {
		if s.takesTraffic() {
			up, alone = up+1, s
		}
	}
	for _, s := range k.plan.raised { // what healthd brings up in this sync is not shown yet
		if !s.takesTraffic() && done[s.key(k.name)] != "" {
			up++
		}
	}
	b.lastUp = ""
	if up == 1 {
		for i := range k.members {
			if k.plan.server[k.members[i].name] == alone && alone != nil {
				b.lastUp = k.members[i].id
			}
		}
	}
	b.observeDrains(k)
	if !k.whole {
		return // servers that are set aside are not watched
	}
	b.wasSetAside = map[string]bool{}
	for _, s := range k.servers {
		if s.setAside() && !s.free() {
			b.wasSetAside[s.name] = true
		}
	}
}

// observeDrains counts the looks in a row in which a member that is to be stopped had no request under way.
func (b *backendState) observeDrains(k *look) {
	if k.roll.awaiting == 0 {
		clear(b.idlePolls)
		return
	}
	seen := make(map[string]bool, len(k.watched))
	for _, w := range k.watched {
		seen[w.member.name] = true
	}
	idle := make(map[runtime.Run]int)
	for i := range k.members {
		m := &k.members[i]
		if !m.awaitsDrain {
			continue
		}
		s := k.plan.server[m.name]
		switch {
		case !k.whole && !seen[m.name]:
			idle[m.run] = b.idlePolls[m.run]
		case s == nil || !s.takesTraffic() && !(b.sticky && s.agentUp) && s.sessions == 0:
			idle[m.run] = b.idlePolls[m.run] + 1
		}
	}
	b.idlePolls = idle
}

// publish makes the report of this sync.
func (l *instance) publish(at time.Time) {
	const sure = 2 // polls: a request that passes from one HAProxy thread to another shows in the second
	alone := l.processAge > l.h.reloadGrace
	r := &report{at: at, backends: map[string]bool{}, sticky: map[string]bool{}, idle: map[runtime.Run]bool{}, lastUp: map[string]string{}}
	for name, b := range l.backends {
		r.backends[name], r.sticky[name] = !b.missing, b.sticky
		for run, looks := range b.idlePolls {
			r.idle[run] = looks >= sure && alone
		}
		if b.lastUp != "" {
			r.lastUp[b.lastUp] = name
		}
	}
	l.report.Store(r)
}
