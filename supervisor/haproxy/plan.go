package haproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// The IDs of servers that healthd adds. By its ID, a healthd without any state recognizes
// a server that an earlier one added. Servers of HAProxy's configuration are never deleted.
const (
	firstID = 864_600_000
	lastID  = firstID + 99_999
)

// plan computes the commands that make a backend's servers equal to its members. It does
// no I/O. A server that was added, filled or got a new address takes traffic only after
// the next plan, when HAProxy shows the change.
type plan struct {
	backend             string
	servers             []*server
	agent               agentAddress
	agentOnAllAddresses bool                    // healthd answers agent checks on all of the host's addresses
	complete            bool                    // all containers are known: one that is no member is gone
	gone                func(string) bool       // the container of that agent-send is, complete or not
	ownerOf             func(netip.Addr) string // the container that has the address; empty: none that is known
	slots               map[string]string       // member → its last slot; changed in place
	agentSend           map[string]string       // server → its agent-send, as far as healthd set it in this process
	wasSetAside         map[string]bool         // servers in drain or maint at the last poll
	owners              map[string]string       // server → ID of its container, as far as it is known; changed in place
	agentInterval       time.Duration           // of the agent checks of servers that are added
	version             string                  // of HAProxy
	cookie              bool                    // the backend has clients stick to servers by a cookie
	sticky              bool                    // HAProxy sends clients to the server that they had, also at weight 0
	elsewhere           bool                    // HAProxy's loopback addresses are not the host's

	server       map[string]*server // member → its server
	ids          map[int]bool       // in use; nil: not computed yet
	nextID       int
	commands     []command
	newAgentSend map[string]string // becomes agentSend when the commands succeed; empty: delete it there
	problems     []problem
	waits        bool      // for the last request of a server that is to be deleted
	cookieless   bool      // a server that healthd added, or adds, has no cookie
	pollSoon     bool      // look again at once: a server was added, filled or moved
	fresh        []string  // the members of these servers
	raised       []*server // of members that shall get requests, and that have commands
}

// agentAddress is where a server's agent check connects to.
type agentAddress struct {
	host string
	port int
}

// problem is something that cannot be done for a server, container or backend (subject).
type problem struct{ subject, text string }

// usesHealthdAgent says that the server's agent check asks this healthd.
func (p *plan) usesHealthdAgent(s *server) bool {
	return s.agentState&checkConfigured != 0 && s.agentAddress.port == p.agent.port && (p.agentOnAllAddresses || s.agentAddress.host == p.agent.host)
}

// isSlot says that the server is a slot of a server-template, to be given an address: it is
// configured as disabled, and its agent check asks this healthd.
func (p *plan) isSlot(s *server) bool {
	return s.adminState&adminConfigured != 0 && p.usesHealthdAgent(s)
}

// addedByHealthd says that this healthd, or an earlier one at its agent address, added the
// server.
func (p *plan) addedByHealthd(s *server) bool {
	return s.forcedID && s.id >= firstID && s.id <= lastID && s.agentAddress == p.agent
}

// incomplete says that healthd was interrupted while it added or deleted the server. For a
// server that this daemon set up itself, that is false. For others it follows from weight
// and health check, which an operator who disables the agent check usually leaves as they
// are.
func (p *plan) incomplete(s *server) bool {
	return p.addedByHealthd(s) && p.agentSend[s.name] == "" && s.agentState&checkEnabled == 0 && (s.weight == 0 || s.checkState&checkEnabled == 0)
}

// managed says that the server belongs to a container, which may be gone.
func (p *plan) managed(s *server) bool { return p.addedByHealthd(s) || p.isSlot(s) && !s.free() }

// compute finds the commands and problems for these members. Those of servers that are new come last: they may be so many
// that there is no time for all.
func (p *plan) compute(all []member) {
	p.assign(all)
	hasSlots := slices.ContainsFunc(p.servers, p.isSlot)
	var ofNew []command
	for i := range all {
		before, fresh := len(p.commands), len(p.fresh)
		p.computeMember(&all[i], hasSlots)
		p.noteRaised(&all[i], before)
		if len(p.fresh) > fresh {
			ofNew = append(ofNew, p.commands[before:]...)
			p.commands = p.commands[:before]
		}
	}
	p.warnCookie()
	p.warnProjects(all)
	p.cleanUp()
	p.commands = append(p.commands, ofNew...)
}

func (p *plan) computeMember(m *member, hasSlots bool) {
	if m.duplicateName {
		p.addProblem(m.name, fmt.Sprintf("several containers are called %s, and there can be one server of a name", m.name))
	}
	s := p.server[m.name]
	if m.unreached && (s == nil || p.isSlot(s) || p.addedByHealthd(s) || !p.leadsTo(s, m)) {
		m = p.keepOut(m)
	}
	switch {
	case m.invalid != "":
		p.addProblem(m.name, m.invalid)
	case s != nil && p.isSlot(s):
		p.fillSlot(s, m)
	case s != nil && p.addedByHealthd(s):
		p.updateAdded(s, m)
	case s != nil:
		p.updateConfigured(s, m)
	case !m.reachable():
		// A container that does not run has no address.
	case hasSlots:
		p.addProblem(m.name, fmt.Sprintf("there is no free server-template slot for container %s in backend %s", m.name, p.backend))
	default:
		p.addServer(m)
	}
}

// warnProjects says that a backend has containers of several Compose projects, such as production's and a developer's.
// Where a file names one service for them, it is meant.
func (p *plan) warnProjects(all []member) {
	var projects []string
	const most = 5
	for i := range all {
		if name := all[i].project; name != "" && !slices.Contains(projects, name) && len(projects) < most {
			projects = append(projects, name)
		}
	}
	if len(projects) > 1 {
		slices.Sort(projects)
		p.addProblem(p.backend+" projects", fmt.Sprintf("backend %s has containers of several Compose projects (%s): have the spec match %s, too; or, if that is meant, set publish.service",
			p.backend, strings.Join(projects, ", "), core.ComposeProject))
	}
}

// noteRaised notes the server of a member that shall get requests, if it has commands beyond the first so many.
func (p *plan) noteRaised(m *member, before int) {
	if m.want == wantUp && !m.unreached && len(p.commands) > before {
		p.raised = append(p.raised, p.server[m.name])
	}
}

// lookSoon has the member's server looked at again, before it gets requests and for some time.
func (p *plan) lookSoon(m *member) { p.pollSoon, p.fresh = true, append(p.fresh, m.name) }

// fillSlot makes a slot the member's server. drain or maint by an operator stays, also after
// a reload in which HAProxy kept that state and lost the address.
func (p *plan) fillSlot(s *server, m *member) {
	if s.free() && !m.reachable() {
		return // there is nothing to fill it with yet
	}
	restored := p.wasSetAside[s.name] && (s.port != 0 || s.adminState&adminDrain != 0)
	fresh := s.free() && !restored
	if fresh {
		p.set(s, "weight 0%")
		p.set(s, "state ready")
		p.set(s, "agent down")
		p.lookSoon(m)
	}
	p.setAgentSend(s, m)
	if moved := p.updateAddress(s, m); !moved && !fresh {
		p.applyWant(s, m)
	}
}

// updateAdded updates a server that healthd added.
func (p *plan) updateAdded(s *server, m *member) {
	half := p.incomplete(s)
	switch {
	case half:
		p.enableAdded(s, m)
	case s.agentState&checkEnabled == 0:
		p.addProblem(s.key(p.backend), "the agent check of server "+s.key(p.backend)+" is disabled: healthd does not change the server until it is enabled")
		return
	}
	p.cookieless = p.cookieless || !s.cookie
	p.setAgentSend(s, m)
	if moved := p.updateAddress(s, m); !moved && !half {
		p.applyWant(s, m)
	}
}

// enableAdded enables a server that healthd added, as one that is down. It enables the
// agent check last, so that an interruption leaves the server incomplete.
func (p *plan) enableAdded(s *server, m *member) {
	p.set(s, "weight 0%")
	p.set(s, "state ready")
	p.command("enable health "+s.key(p.backend), s, isSilent)
	p.command("enable agent "+s.key(p.backend), s, isSilent)
	p.set(s, "agent down")
	p.lookSoon(m)
}

// agentInterval is that of the agent checks of added servers when there are so many: all together are about a
// thousand in a second. What changes is pushed, and does not wait for them.
func agentInterval(servers int) time.Duration {
	const perSecond = 1000
	return time.Duration(max(1, (servers+perSecond-1)/perSecond)) * time.Second
}

// freeID returns an ID that no server of the backend has. Another healthd, with another
// agent port, begins with other IDs: servers that it adds now are not visible yet.
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

// setAgentSend sets what the agent check sends. HAProxy does not show it, so it is set once
// in each process.
func (p *plan) setAgentSend(s *server, m *member) {
	if p.agentSend[s.name] != m.agentName {
		p.set(s, "agent-send "+m.agentName+",")
		p.newAgentSend[s.name] = m.agentName
	}
}

// updateAddress gives the server the member's address, if it has another one.
func (p *plan) updateAddress(s *server, m *member) (moved bool) {
	if !m.reachable() || s.address == m.address && s.port == m.port {
		return false
	}
	if s.agentUp { // no request may reach it before address and port are set
		p.set(s, "agent down")
	}
	p.setAddress(s, m.address, m.port)
	p.lookSoon(m)
	return true
}

// invalidCharacters returns the part of name that HAProxy's command line cannot take.
func invalidCharacters(name string) string { return strings.Trim(name, nameCharacters) }

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"

// applyWant sets the server's agent state and weight to what the member wants.
func (p *plan) applyWant(s *server, m *member) {
	switch {
	case s.agentState&checkEnabled == 0:
		p.addProblem(s.key(p.backend), "server "+s.key(p.backend)+" has no agent-check: healthd cannot set the state of a server without one")
	case s.agentAddress.port != p.agent.port:
		p.addProblem(s.key(p.backend), fmt.Sprintf("the agent-check of server %s asks port %d and not healthd's, which is %d: it would overwrite what healthd sets",
			s.key(p.backend), s.agentAddress.port, p.agent.port))
	case s.agentUp && (m.want == wantDown || m.want == wantDrain && p.sticky):
		p.set(s, "agent down") // requests under way go on
	case m.want == wantDrain && s.weight > 0 && !p.sticky:
		p.set(s, "weight 0%")
	case m.want == wantUp:
		if s.weight == 0 && s.initialWeight > 0 {
			p.set(s, "weight 100%")
		}
		if !s.agentUp {
			p.set(s, "agent up")
		}
	}
}

// cleanUp frees slots and deletes added servers whose containers are gone. A server in
// drain or maint stays until the operator sets it ready: otherwise that state would be
// lost.
func (p *plan) cleanUp() {
	kept := make(map[*server]bool, len(p.server))
	for _, s := range p.server {
		kept[s] = true
	}
	for _, s := range p.servers {
		switch {
		case kept[s], !p.addedByHealthd(s) && !p.isSlot(s):
		case !p.complete && (p.agentSend[s.name] == "" || !p.gone(p.agentSend[s.name])):
		case p.managed(s) && s.setAside() && !p.incomplete(s):
			p.addProblem(s.key(p.backend), "server "+s.key(p.backend)+" is in drain or maint and its container is gone: it stays until an operator sets it ready")
		case p.addedByHealthd(s):
			p.deleteServer(s)
		case !s.free() || s.adminState&(adminMaint|adminDrain) == 0:
			p.freeSlot(s)
		}
	}
}

// deleteServer deletes a server that healthd added, once no request is under way.
func (p *plan) deleteServer(s *server) {
	if s.agentUp {
		p.set(s, "agent down")
	}
	if s.sessions > 0 {
		p.waits = true
		return
	}
	if s.weight > 0 {
		p.set(s, "weight 0%")
	}
	if s.agentState&checkEnabled != 0 {
		p.command("disable agent "+s.key(p.backend), s, isSilent)
	}
	if s.adminState&adminMaint == 0 {
		p.set(s, "state maint")
	}
	p.command("del server "+s.key(p.backend), s, isDeleted)
	p.newAgentSend[s.name] = ""
}

// freeSlot frees a slot. It removes the address before it sets maint: after an interruption
// in between, no daemon takes the slot for one that an operator set to maint.
func (p *plan) freeSlot(s *server) {
	if s.agentUp {
		p.set(s, "agent down")
	}
	if !s.free() {
		p.setAddress(s, netip.IPv4Unspecified(), 0)
	}
	p.set(s, "state maint")
	p.set(s, "weight 100%")
	p.newAgentSend[s.name] = ""
}

func (p *plan) addProblem(about, text string) {
	p.problems = append(p.problems, problem{about, text})
}
