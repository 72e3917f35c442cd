package haproxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The IDs of servers that healthd adds. They tell them from those of HAProxy's
// configuration, which are never deleted, also after healthd has forgotten all.
const (
	firstID = 864_600_000
	lastID  = firstID + 99_999
)

// plan is what is to be done to make a backend's servers equal to its members. It is
// made from what is known of both and has no I/O.
type plan struct {
	backend  string
	servers  []*server
	agent    agent
	complete bool              // a container that is no member is gone
	slots    map[string]string // by member: the slot that it had last; changed in place
	told     map[string]string // by server: what its agent check sends, as far as that was set; changed in place

	server   map[string]*server // by member, with its commands done: what becomes of it
	commands []command
	problems []problem
}

// agent is where healthd answers agent checks.
type agent struct {
	host string
	port int
}

// problem is what cannot be done, and why.
type problem struct{ about, text string }

// slot says that a server is there to be given an address: it is configured as disabled
// and asks healthd's agent listener.
func (p *plan) slot(s *server) bool {
	return s.admin&adminConfigured != 0 && s.agent&agentConfigured != 0 && s.agentPort == p.agent.port
}

// ours says that healthd has added the server.
func ours(s *server) bool { return s.forcedID && s.id >= firstID && s.id <= lastID }

// left says that a server is there for a container, which may be gone.
func (p *plan) left(s *server) bool { return ours(s) || p.slot(s) && !s.free() }

// make finds the commands for these members.
func (p *plan) make(all []member) {
	p.assign(all)
	for i := range all {
		m := &all[i]
		s := p.server[m.name]
		switch {
		case odd(m.name) != "":
			p.wrong(m.name, fmt.Sprintf("container %s cannot be a server: HAProxy takes no %q in names", m.name, odd(m.name)))
		case s != nil && p.slot(s):
			p.fill(s, m)
		case s != nil && ours(s):
			p.keep(s, m)
		case s != nil:
			p.assert(s, m)
		case !m.reachable():
			// It has no address while it does not run.
		case p.hasSlots():
			p.wrong(m.name, fmt.Sprintf("there is no free server-template slot for container %s in backend %s", m.name, p.backend))
		default:
			p.add(m)
		}
	}
	if p.complete {
		p.clear()
	}
}

func (p *plan) hasSlots() bool { return slices.ContainsFunc(p.servers, p.slot) }

// fill makes a slot the member's server. New requests come to it only when everything
// else is set. What somebody has set by hand stays.
func (p *plan) fill(s *server, m *member) {
	if s.free() {
		p.set(s, "weight 0%")
		p.set(s, "state ready")
		p.set(s, "agent down")
		s.weight, s.agentUp = 0, false
	}
	p.tell(s, m)
	p.move(s, m)
	p.assert(s, m)
}

// keep sees to a server that healthd has added. One whose agent check is off was about
// to be deleted, or has not been added to the end.
func (p *plan) keep(s *server, m *member) {
	if s.agent&agentEnabled == 0 {
		p.enable(s)
	}
	p.tell(s, m)
	p.move(s, m)
	p.assert(s, m)
}

// add makes a new server for a member. Its check is the backend's, its agent check
// healthd's, so that HAProxy keeps what it was told last should healthd die.
func (p *plan) add(m *member) {
	s := &server{name: m.name, id: p.freeID(), forcedID: true, address: m.address, port: m.port, agent: agentConfigured}
	p.servers, p.server[m.name] = append(p.servers, s), s
	p.commands = append(p.commands, command{
		fmt.Sprintf("add server %s %s weight 100 check inter 2s fall 3 rise 2 agent-check agent-addr %s agent-port %d agent-inter 1s agent-send %s, id %d",
			s.key(p.backend), net.JoinHostPort(m.address.String(), strconv.Itoa(m.port)), p.agent.host, p.agent.port, m.ask, s.id),
		s.key(p.backend), isText("New server registered."),
	})
	p.told[s.name] = m.ask
	p.enable(s)
	p.assert(s, m)
}

// odd returns what HAProxy does not take in names, or would read as something else.
func odd(name string) string { return strings.Trim(name, nameCharacters) }

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"

// enable lets a server that healthd has added take part, first as one that is down. Its
// agent check comes after its maintenance is over: should this be cut short in between,
// the next one knows whose maintenance it is.
func (p *plan) enable(s *server) {
	p.set(s, "weight 0%")
	p.command("enable health "+s.key(p.backend), s, isSilent)
	p.set(s, "state ready")
	p.command("enable agent "+s.key(p.backend), s, isSilent)
	p.set(s, "agent down")
	s.weight, s.agent, s.agentUp = 0, s.agent|agentEnabled, false
}

// freeID returns an ID that no server of the backend has.
func (p *plan) freeID() int {
	used := make(map[int]bool, len(p.servers))
	for _, s := range p.servers {
		used[s.id] = true
	}
	id := firstID
	for used[id] {
		id++
	}
	return id
}

// tell sets what the agent check sends. HAProxy does not show it, so each process is
// told once.
func (p *plan) tell(s *server, m *member) {
	if p.told[s.name] != m.ask {
		p.set(s, "agent-send "+m.ask+",")
		p.told[s.name] = m.ask
	}
}

// move gives a server the member's address.
func (p *plan) move(s *server, m *member) {
	if !m.reachable() || s.address == m.address && s.port == m.port {
		return
	}
	if s.agentUp { // nothing may go there before it is all set
		p.set(s, "agent down")
		s.agentUp = false
	}
	p.setAddress(s, m.address, m.port)
}

// assert lets HAProxy do with a server what is wanted.
func (p *plan) assert(s *server, m *member) {
	if s.agent&agentEnabled == 0 {
		p.wrong(s.key(p.backend), "server "+s.key(p.backend)+" has no agent-check: without one healthd cannot tell HAProxy about it")
		return
	}
	switch {
	case m.want == wantDown && s.agentUp:
		p.set(s, "agent down")
	case m.want == wantDrain && s.weight > 0:
		p.set(s, "weight 0%")
	case m.want == wantUp:
		if s.weight == 0 {
			p.set(s, "weight 100%")
		}
		if !s.agentUp {
			p.set(s, "agent up")
		}
	}
}

// clear frees the slots and deletes the servers that healthd has filled and added for
// containers that are gone. One that somebody has set aside by hand stays until they
// set it ready: it would be forgotten otherwise.
func (p *plan) clear() {
	kept := make(map[*server]bool, len(p.server))
	for _, s := range p.server {
		kept[s] = true
	}
	for _, s := range p.servers {
		leaving := ours(s) && s.agent&agentEnabled == 0
		switch {
		case kept[s], s.held() && !leaving:
		case ours(s):
			p.remove(s, leaving)
		case p.slot(s) && (!s.free() || s.admin&adminMaint == 0):
			p.empty(s)
		}
	}
}

// empty frees a slot. It has no address before it is set to maint: should this be cut
// short in between, nobody takes that for somebody's wish.
func (p *plan) empty(s *server) {
	if s.agentUp {
		p.set(s, "agent down")
	}
	if !s.free() {
		p.setAddress(s, netip.IPv4Unspecified(), 0)
	}
	p.set(s, "state maint")
	p.set(s, "weight 100%")
	delete(p.told, s.name)
}

// remove deletes a server that healthd has added, when nothing is under way there.
// That its agent check is off tells this from what somebody does by hand.
func (p *plan) remove(s *server, leaving bool) {
	if s.agentUp {
		p.set(s, "agent down")
	}
	if s.sessions > 0 {
		return
	}
	if !leaving {
		p.command("disable agent "+s.key(p.backend), s, isSilent)
		p.set(s, "state maint")
	}
	p.command("del server "+s.key(p.backend), s, isDeleted)
	delete(p.told, s.name)
}

func (p *plan) wrong(about, text string) {
	p.problems = append(p.problems, problem{about, text})
}
