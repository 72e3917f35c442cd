package haproxy

import (
	"maps"
	"net/netip"
)

// assign finds the server of each member, the surest first: that of its name where it is
// no slot, the slot that it had, the one with its address, the one of its name, a free
// one, and at last that of a container that does not run.
func (p *plan) assign(all []member) {
	a := newAssignment(p)
	a.pass(all, func(m *member) *server { return a.named[m.name] })
	a.pass(all, func(m *member) *server { return p.unlessAnothers(a.aside[m.target()], m) })
	a.pass(all, func(m *member) *server { return a.slots[p.slots[m.name]] })
	a.pass(all, func(m *member) *server { return p.unlessAnothers(a.addressed[m.target()], m) })
	a.pass(all, func(m *member) *server { return a.slots[m.name] })
	a.pass(all, a.unused)
	a.pass(all, a.idle(all))
	p.server = a.server
	p.noteSlots(a.slots)
	p.noteOwners(all)
}

// unlessAnothers keeps a server that was set aside by hand from a container that has
// merely got the address of the one that this was meant for.
func (p *plan) unlessAnothers(s *server, m *member) *server {
	if s != nil && s.held() && p.owners[s.name] != "" && p.owners[s.name] != m.id {
		return nil
	}
	return s
}

// noteOwners keeps whose the servers are, also of containers that are gone.
func (p *plan) noteOwners(all []member) {
	there := make(map[string]bool, len(p.servers))
	for _, s := range p.servers {
		there[s.name] = true
	}
	maps.DeleteFunc(p.owners, func(server, _ string) bool { return !there[server] })
	for i := range all {
		if s := p.server[all[i].name]; s != nil {
			p.owners[s.name] = all[i].id
		}
	}
}

// assignment is the work of assign.
type assignment struct {
	named     map[string]*server // that are no slots
	slots     map[string]*server
	addressed map[netip.AddrPort]*server // slots
	// aside are servers that healthd has added and somebody has set aside by hand: a
	// container that was renamed is still there.
	aside map[netip.AddrPort]*server
	free  []*server // slots

	server map[string]*server // by member
	taken  map[*server]bool
}

func newAssignment(p *plan) *assignment {
	a := &assignment{
		named: map[string]*server{}, slots: map[string]*server{}, addressed: map[netip.AddrPort]*server{},
		aside: map[netip.AddrPort]*server{}, server: map[string]*server{}, taken: map[*server]bool{},
	}
	for _, s := range p.servers {
		at := netip.AddrPortFrom(s.address, uint16(s.port))
		if !p.slot(s) {
			a.named[s.name] = s
			if p.ours(s) && s.held() {
				a.aside[at] = s
			}
			continue
		}
		a.slots[s.name] = s
		switch {
		case !s.free():
			a.addressed[at] = s
		case s.admin&adminDrain == 0: // else somebody has set it aside
			a.free = append(a.free, s)
		}
	}
	return a
}

// pass gives what it finds to members that have none.
func (a *assignment) pass(all []member, find func(*member) *server) {
	for i := range all {
		m := &all[i]
		if a.server[m.name] != nil || m.wrong != "" {
			continue
		}
		if s := find(m); s != nil && !a.taken[s] {
			a.server[m.name], a.taken[s] = s, true
		}
	}
}

// unused finds a free slot.
func (a *assignment) unused(m *member) *server {
	for len(a.free) > 0 && a.taken[a.free[0]] {
		a.free = a.free[1:]
	}
	if len(a.free) == 0 || !m.reachable() {
		return nil
	}
	return a.free[0]
}

// idle finds a slot whose container does not run and waits for its return.
func (a *assignment) idle(all []member) func(*member) *server {
	next := 0
	return func(m *member) *server {
		for ; m.reachable() && m.want == wantUp && next < len(all); next++ {
			other := &all[next]
			s := a.server[other.name]
			if s != nil && !other.reachable() && a.slots[s.name] == s && !s.held() {
				delete(a.server, other.name)
				delete(a.taken, s)
				return s
			}
		}
		return nil
	}
}

// noteSlots keeps which slot is whose, and forgets those that are free again or
// another's.
func (p *plan) noteSlots(slots map[string]*server) {
	owner := make(map[string]string, len(p.server))
	for member, s := range p.server {
		if slots[s.name] == s {
			owner[s.name] = member
		}
	}
	for member, name := range p.slots {
		if s := slots[name]; p.server[member] == nil && (s == nil || s.free() || owner[name] != "") {
			delete(p.slots, member)
		}
	}
	for name, member := range owner {
		p.slots[member] = name
	}
}
