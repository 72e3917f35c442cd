package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// backendState is what an instance keeps about one backend.
type backendState struct {
	slots          map[string]string // member → its slot
	agentSend      map[string]string // server → its agent-send in this process
	plannedMembers []member          // of the newest plan
	dueCommands    []command         // of the newest plan
	pollAt         time.Time
	pollSoonUntil  time.Time
	owners         map[string]string       // server → ID of its container
	recordedSlots  map[string]string       // slots of the newest EventServer of each member
	wasSetAside    map[string]bool         // servers in drain or maint
	idlePolls      map[runtime.Run]int     // polls in a row that showed no request under way
	lastUp         string                  // ID of the container that is the last one up
	missing        bool                    // HAProxy has no such backend
	repeats        map[string]repeat       // by subject
	openProblems   map[string]*openProblem // by subject
}

func newBackendState() *backendState {
	return &backendState{
		slots: map[string]string{}, agentSend: map[string]string{}, idlePolls: map[runtime.Run]int{}, openProblems: map[string]*openProblem{},
		repeats: map[string]repeat{}, owners: map[string]string{},
	}
}

// finishBackend takes in the outcome of a plan: failed has the error of each server whose
// commands failed.
func (l *instance) finishBackend(name string, p *plan, failed map[string]string, began time.Time) {
	b, all, now := l.backends[name], l.members[name], time.Now()
	b.plannedMembers = all
	wait := b.observe(p, all)
	b.noteAgentSend(p, failed)
	took := now.Sub(began)
	switch {
	case p.pollSoon && len(b.dueCommands) > 0:
		b.pollAt, b.pollSoonUntil = now, now.Add(pollSoonFor)
	case len(b.dueCommands) > 0, wait, now.Before(b.pollSoonUntil):
		b.pollAt = now.Add(max(pollSoon, took))
	default:
		b.pollAt = now.Add(max(pollInterval, 100*took)) // polling a huge backend takes at most 1 % of the time
	}
	l.recordSlots(b, p, all)
	b.countRepeats(b.dueCommands, failed, now)
	l.updateProblems(b, p, b.dueCommands, failed, now)
	if len(all) == 0 && len(b.openProblems) == 0 && !slices.ContainsFunc(p.servers, p.managed) {
		delete(l.backends, name)
	}
}

// noteAgentSend keeps what agent checks send from now on.
func (b *backendState) noteAgentSend(p *plan, failed map[string]string) {
	done := commandsBySubject(b.dueCommands)
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
	for i := range all {
		m := &all[i]
		if slot := p.slots[m.name]; slot != b.recordedSlots[m.name] && slot != "" {
			l.h.journal.Record(core.Event{Time: time.Now(), Container: m.name, Reason: EventServer, Message: fmt.Sprintf(
				"Container %s is server %s/%s of HAProxy at %s", m.name, p.backend, slot, l.socket.text)})
		}
	}
	b.recordedSlots = maps.Clone(p.slots)
}

// observe takes in what HAProxy shows of the members. wait says that the supervisor waits
// for a member's last request, to stop it.
func (b *backendState) observe(p *plan, all []member) (wait bool) {
	up, alone := 0, (*server)(nil)
	for _, s := range p.servers {
		if s.takesTraffic() {
			up, alone = up+1, s
		}
	}
	b.lastUp = ""
	idle := make(map[runtime.Run]int)
	pushed := commandsBySubject(b.dueCommands)
	for i := range all { // what healthd brings up in this sync is not shown yet
		s := p.server[all[i].name]
		if all[i].want == wantUp && s != nil && !s.takesTraffic() && pushed[p.backend+"/"+s.name] != "" {
			up++
		}
	}
	for i := range all {
		m := &all[i]
		s := p.server[m.name]
		if up == 1 && s == alone {
			b.lastUp = m.id
		}
		if m.awaitsDrain {
			wait = true
			if s == nil || !s.takesTraffic() && s.sessions == 0 {
				idle[m.run] = b.idlePolls[m.run] + 1
			}
		}
	}
	b.idlePolls = idle
	b.wasSetAside = map[string]bool{}
	for _, s := range p.servers {
		if s.setAside() && !s.free() {
			b.wasSetAside[s.name] = true
		}
	}
	return wait
}

// publish makes the report of this sync.
func (l *instance) publish(at time.Time) {
	const sure = 2 // polls: a request that passes from one HAProxy thread to another shows in the second
	alone := l.processAge > l.h.reloadGrace
	r := &report{at: at, backends: map[string]bool{}, idle: map[runtime.Run]bool{}, lastUp: map[string]string{}}
	for name, b := range l.backends {
		r.backends[name] = !b.missing
		for run, looks := range b.idlePolls {
			r.idle[run] = looks >= sure && alone
		}
		if b.lastUp != "" {
			r.lastUp[b.lastUp] = name
		}
	}
	l.report.Store(r)
}
