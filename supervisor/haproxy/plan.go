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
// made from what is known of both and has no I/O. New requests come to a server that
// was added, filled or moved only by the next plan, when HAProxy shows that it is so.
type plan struct {
	backend    string
	servers    []*server
	agent      agent
	everywhere bool              // healthd answers on other addresses, too
	complete   bool              // a container that is no member is gone
	slots      map[string]string // by member: the slot that it had last; changed in place
	told       map[string]string // by server: what its agent check sends, as far as that was set
	held       map[string]bool   // servers that were set aside by hand when last looked at
	owners     map[string]string // by server: the ID of its container, as far as that is known; changed in place

	server   map[string]*server // by member, with its commands done: what becomes of it
	ids      map[int]bool       // in use; nil: nobody has looked
	nextID   int
	commands []command
	telling  map[string]string // becomes told; empty: nothing is told any more
	problems []problem
	built    bool // servers are to be looked at again at once
}

// agent is where agent checks are answered.
type agent struct {
	host string
	port int
}

// problem is what cannot be done, and why.
type problem struct{ about, text string }

// asksUs says that a server asks healthd's agent listener, and not that of another.
func (p *plan) asksUs(s *server) bool {
	return s.agent&checkConfigured != 0 && s.asks.port == p.agent.port && (p.everywhere || s.asks.host == p.agent.host)
}

// slot says that a server is there to be given an address: it is configured as disabled
// and asks healthd's agent listener.
func (p *plan) slot(s *server) bool { return s.admin&adminConfigured != 0 && p.asksUs(s) }

// ours says that healthd has added the server.
func (p *plan) ours(s *server) bool {
	return s.forcedID && s.id >= firstID && s.id <= lastID && s.asks == p.agent
}

// halfDone says that healthd has not added the server to the end, or not deleted it to
// the end. A daemon that has told the server all itself knows better; to another one the
// weight and the health check tell, as somebody who disables the agent check by hand
// leaves these most of the time.
func (p *plan) halfDone(s *server) bool {
	return p.ours(s) && p.told[s.name] == "" && s.agent&checkEnabled == 0 && (s.weight == 0 || s.check&checkEnabled == 0)
}

// left says that a server is there for a container, which may be gone.
func (p *plan) left(s *server) bool { return p.ours(s) || p.slot(s) && !s.free() }

// make finds the commands for these members.
func (p *plan) make(all []member) {
	p.assign(all)
	for i := range all {
		m := &all[i]
		if m.clash {
			p.wrong(m.name, fmt.Sprintf("several containers are called %s, and there can be one server of a name", m.name))
		}
		s := p.server[m.name]
		switch {
		case m.wrong != "":
			p.wrong(m.name, m.wrong)
		case s != nil && p.slot(s):
			p.fill(s, m)
		case s != nil && p.ours(s):
			p.keep(s, m)
		case s != nil:
			p.assert(s, m)
		case !m.reachable():
			// It has no address while it does not run.
		case slices.ContainsFunc(p.servers, p.slot):
			p.wrong(m.name, fmt.Sprintf("there is no free server-template slot for container %s in backend %s", m.name, p.backend))
		default:
			p.add(m)
		}
	}
	if p.complete {
		p.clear()
	}
}

// fill makes a slot the member's server. What somebody has set by hand stays, also when
// HAProxy has forgotten the address over a reload and kept that.
func (p *plan) fill(s *server, m *member) {
	restored := p.held[s.name] && (s.port != 0 || s.admin&adminDrain != 0)
	fresh := s.free() && !restored
	if fresh {
		p.set(s, "weight 0%")
		p.set(s, "state ready")
		p.set(s, "agent down")
		p.built = true
	}
	p.tell(s, m)
	if moved := p.move(s, m); !moved && !fresh {
		p.assert(s, m)
	}
}

// keep sees to a server that healthd has added.
func (p *plan) keep(s *server, m *member) {
	half := p.halfDone(s)
	switch {
	case half:
		p.enable(s)
	case s.agent&checkEnabled == 0:
		p.wrong(s.key(p.backend), "somebody has disabled the agent check of server "+s.key(p.backend)+": it is left alone until that is enabled")
		return
	}
	p.tell(s, m)
	if moved := p.move(s, m); !moved && !half {
		p.assert(s, m)
	}
}

// add makes a new server for a member. Its check is the backend's, its agent check
// healthd's, so that HAProxy keeps what it was told last should healthd die.
func (p *plan) add(m *member) {
	s := &server{name: m.name, id: p.freeID()}
	if s.id > lastID {
		p.wrong(m.name, fmt.Sprintf("there are too many servers in backend %s for container %s", p.backend, m.name))
		return
	}
	p.server[m.name] = s
	p.commands = append(p.commands, command{
		fmt.Sprintf("add server %s %s weight 100 check inter 2s fall 3 rise 2 agent-check agent-addr %s agent-port %d agent-inter 1s agent-send %s, id %d",
			s.key(p.backend), net.JoinHostPort(m.address.String(), strconv.Itoa(m.port)), p.agent.host, p.agent.port, m.ask, s.id),
		s.key(p.backend), isText("New server registered."),
	})
	p.telling[s.name] = m.ask
	p.enable(s)
}

// enable lets a server that healthd has added take part, first as one that is down. Its
// agent check comes last: should this be cut short before, it is half done.
func (p *plan) enable(s *server) {
	p.set(s, "weight 0%")
	p.set(s, "state ready")
	p.command("enable health "+s.key(p.backend), s, isSilent)
	p.command("enable agent "+s.key(p.backend), s, isSilent)
	p.set(s, "agent down")
	p.built = true
}

// freeID returns an ID that no server of the backend has. Another healthd, which answers
// elsewhere, begins with others: what it adds meanwhile is not seen yet.
func (p *plan) freeID() int {
	if p.ids == nil {
		p.ids, p.nextID = make(map[int]bool, len(p.servers)), firstID+p.agent.port%100*500
		for _, s := range p.servers {
			p.ids[s.id] = true
		}
	}
	for p.ids[p.nextID] {
		p.nextID++
	}
	p.nextID++
	return p.nextID - 1
}

// tell sets what the agent check sends. HAProxy does not show it, so each process is
// told once.
func (p *plan) tell(s *server, m *member) {
	if p.told[s.name] != m.ask {
		p.set(s, "agent-send "+m.ask+",")
		p.telling[s.name] = m.ask
	}
}

// move gives a server the member's address, if it has another one.
func (p *plan) move(s *server, m *member) (moved bool) {
	if !m.reachable() || s.address == m.address && s.port == m.port {
		return false
	}
	if s.agentUp { // nothing may go there before it is all set
		p.set(s, "agent down")
	}
	p.setAddress(s, m.address, m.port)
	p.built = true
	return true
}

// odd returns what HAProxy does not take in names, or would read as something else.
func odd(name string) string { return strings.Trim(name, nameCharacters) }

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"

// assert lets HAProxy do with a server what is wanted.
func (p *plan) assert(s *server, m *member) {
	switch {
	case s.agent&checkEnabled == 0:
		p.wrong(s.key(p.backend), "server "+s.key(p.backend)+" has no agent-check: without one healthd cannot tell HAProxy about it")
	case s.asks.port != p.agent.port:
		p.wrong(s.key(p.backend), fmt.Sprintf("the agent-check of server %s asks port %d and not healthd's, which is %d: it would say otherwise",
			s.key(p.backend), s.asks.port, p.agent.port))
	case m.want == wantDown && s.agentUp:
		p.set(s, "agent down")
	case m.want == wantDrain && s.weight > 0:
		p.set(s, "weight 0%")
	case m.want == wantUp:
		if s.weight == 0 && s.initial > 0 {
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
		switch {
		case kept[s], !p.ours(s) && !p.slot(s):
		case p.left(s) && s.held() && !p.halfDone(s):
			p.wrong(s.key(p.backend), "server "+s.key(p.backend)+" was set aside by hand and its container is gone: it stays until somebody sets it ready")
		case p.ours(s):
			p.remove(s)
		case !s.free() || s.admin&(adminMaint|adminDrain) == 0:
			p.empty(s)
		}
	}
}

// remove deletes a server that healthd has added, when nothing is under way there.
func (p *plan) remove(s *server) {
	if s.agentUp {
		p.set(s, "agent down")
	}
	if s.sessions > 0 {
		return
	}
	if s.weight > 0 {
		p.set(s, "weight 0%")
	}
	if s.agent&checkEnabled != 0 {
		p.command("disable agent "+s.key(p.backend), s, isSilent)
	}
	if s.admin&adminMaint == 0 {
		p.set(s, "state maint")
	}
	p.command("del server "+s.key(p.backend), s, isDeleted)
	p.telling[s.name] = ""
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
	p.telling[s.name] = ""
}

func (p *plan) wrong(about, text string) {
	p.problems = append(p.problems, problem{about, text})
}
