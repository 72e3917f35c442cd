package haproxy

import (
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"healthd/runtime"
	"healthd/supervisor"
)

// A server of HAProxy's configuration keeps the address that it was given. A container that comes back may have another
// one, and another container its old one: requests to the server would go to a stranger.

// updateConfigured updates a server of HAProxy's configuration. It gets requests only at an address of its member's. It
// is given one if it has none, unless HAProxy has found the address by a name: HAProxy may put that back at any time.
func (p *plan) updateConfigured(s *server, m *member) {
	switch {
	case p.leadsTo(s, m):
		if p.mayBeKeptOut(s) || p.agentSend[s.name] == noContainer {
			p.setAgentSend(s, m)
		}
		p.applyWant(s, m)
	case !m.reachable():
		if m.agentName == noContainer && p.asksHealthd(s) {
			p.setAgentSend(s, m)
		}
		p.applyWant(s, m) // which is not ready
	case s.resolved == "":
		p.addProblem(s.key(p.backend), p.astray(s, m)+": healthd sets that. HAProxy's configuration still has the other one")
		if p.elsewhere && p.asksHealthd(s) { // which may have kept it out
			p.setAgentSend(s, m)
		}
		p.updateAddress(s, m)
	case !p.mayBeKeptOut(s):
		p.addProblem(s.key(p.backend), p.astray(s, m)+
			", and without an agent-check that asks healthd it cannot be kept from requests")
	default:
		p.addProblem(s.key(p.backend), fmt.Sprintf("%s: it gets no requests until HAProxy finds the container by the name %s. "+
			"Without resolvers, it does so when it is reloaded", p.astray(s, m), s.resolved))
		out := *m
		out.want, out.agentName = wantDown, noContainer
		p.setAgentSend(s, &out)
		p.applyWant(s, &out)
	}
}

// mayBeKeptOut says that the server's agent check asks this healthd, and that healthd, or an earlier one, has it kept
// from requests by what it asks while its name leads elsewhere.
func (p *plan) mayBeKeptOut(s *server) bool {
	return s.resolved != "" && p.asksHealthd(s)
}

// asksHealthd says that the server has an agent check at work that asks this healthd.
func (p *plan) asksHealthd(s *server) bool {
	return s.agentState&checkEnabled != 0 && p.usesHealthdAgent(s)
}

// noContainer is a name of no container: of such a one healthd's agent says down.
const noContainer = "-"

// astray says that a server's address is not its member's, and whose it is.
func (p *plan) astray(s *server, m *member) string {
	has := "no address"
	if s.address.IsValid() {
		owner := "no container that healthd knows"
		if name := p.ownerOf(s.address); name != "" {
			owner = "container " + name
		}
		has = fmt.Sprintf("the address %s of %s", netip.AddrPortFrom(s.address, uint16(s.port)), owner)
	}
	return fmt.Sprintf("server %s has %s, and container %s has %s", s.key(p.backend), has, m.name, m.target())
}

// leadsTo says that requests to the server reach its member. What is behind a UNIX socket HAProxy does not show.
func (p *plan) leadsTo(s *server, m *member) bool {
	if !s.address.IsValid() {
		return s.resolved == ""
	}
	at := netip.AddrPortFrom(s.address, uint16(s.port))
	if at == m.target() {
		return true
	}
	if p.elsewhere && s.address.IsLoopback() {
		return false
	}
	for word := range strings.FieldsSeq(m.places) {
		if own, err := netip.ParseAddr(word); err == nil && own == s.address {
			return true
		}
		published, err := netip.ParseAddrPort(word)
		everywhere := published.Addr().IsUnspecified() && published.Port() == at.Port()
		if err == nil && (published == at || everywhere && p.ownerOf(s.address) == "") {
			return true
		}
	}
	return false
}

// placesOf lists where requests reach a container of this host: its own addresses, and the addresses with their ports
// at which its engine publishes it. It is a text, so that members can be compared.
func placesOf(of *supervisor.Member) string {
	c := of.Local
	if c == nil {
		return ""
	}
	var b strings.Builder
	for a := range addressesOf(c) {
		b.WriteString(a.String() + " ")
	}
	if c.HostNetwork {
		b.WriteString(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(of.Port)).String() + " ")
	}
	for _, h := range c.HostPorts {
		b.WriteString(netip.AddrPortFrom(h.IP, uint16(h.HostPort)).String() + " ")
	}
	return b.String()
}

// addressesOf yields the addresses that are a container's own.
func addressesOf(c *runtime.Container) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if c.HostNetwork {
			return
		}
		if a, err := netip.ParseAddr(c.Address); err == nil && !yield(a.Unmap()) {
			return
		}
		for _, n := range c.Networks {
			if a, err := netip.ParseAddr(n.Address); err == nil && n.Address != c.Address && !yield(a.Unmap()) {
				return
			}
		}
	}
}

// owners returns a function that says which container of a board has an address; empty: none that healthd knows. It
// reads the board when it is first called.
func owners(board *supervisor.Board) func(netip.Addr) string {
	var names map[netip.Addr]string
	return func(a netip.Addr) string {
		if names == nil {
			names = map[netip.Addr]string{}
			for m := range board.AllMembers() {
				if m.Local == nil {
					continue
				}
				for own := range addressesOf(m.Local) {
					names[own] = m.Container
				}
			}
		}
		return names[a]
	}
}
