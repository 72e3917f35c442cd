package haproxy

import (
	"maps"
	"net/netip"
)

// assign finds the server of each member. It tries, for all members in turn: the server of
// its name that is no slot; an added server in drain or maint with its address; the slot
// it had last; the slot with its address; the slot of its name; a free slot; the slot of
// a container that does not run.
func (p *plan) assign(all []member) {
	a := newAssignment(p)
	a.assignWith(all, func(m *member) *server { return a.byName[m.name] })
	a.assignWith(all, func(m *member) *server { return p.unlessOwnedByAnother(a.setAsideByAddress[m.target()], m) })
	a.assignWith(all, func(m *member) *server { return a.slots[p.slots[m.name]] })
	a.assignWith(all, func(m *member) *server { return p.unlessOwnedByAnother(a.byAddress[m.target()], m) })
	a.assignWith(all, func(m *member) *server { return a.slots[m.name] })
	a.assignWith(all, a.nextFree)
	a.assignWith(all, a.slotOfStopped(all))
	p.server = a.server
	p.rememberSlots(a.slots)
	p.rememberOwners(all)
}

// unlessOwnedByAnother returns nil for a server in drain or maint whose container was
// another one: m only got that one's address.
func (p *plan) unlessOwnedByAnother(s *server, m *member) *server {
	if s != nil && s.setAside() && p.owners[s.name] != "" && p.owners[s.name] != m.id {
		return nil
	}
	return s
}

// rememberOwners keeps which container has which server, also for containers that are gone.
func (p *plan) rememberOwners(all []member) {
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
	byName    map[string]*server // that are no slots
	slots     map[string]*server
	byAddress map[netip.AddrPort]*server // slots
	// setAsideByAddress are added servers in drain or maint: after a rename of its
	// container, such a server is found by its address.
	setAsideByAddress map[netip.AddrPort]*server
	free              []*server // slots

	server map[string]*server // by member
	taken  map[*server]bool
}

func newAssignment(p *plan) *assignment {
	a := &assignment{
		byName: map[string]*server{}, slots: map[string]*server{}, byAddress: map[netip.AddrPort]*server{},
		setAsideByAddress: map[netip.AddrPort]*server{}, server: map[string]*server{}, taken: map[*server]bool{},
	}
	for _, s := range p.servers {
		at := netip.AddrPortFrom(s.address, uint16(s.port))
		if !p.isSlot(s) {
			a.byName[s.name] = s
			if p.addedByHealthd(s) && s.setAside() {
				a.setAsideByAddress[at] = s
			}
			continue
		}
		a.slots[s.name] = s
		switch {
		case !s.free():
			a.byAddress[at] = s
		case s.adminState&adminDrain == 0: // an operator's drain keeps a slot from being used
			a.free = append(a.free, s)
		}
	}
	return a
}

// assignWith gives each member without a server the one that find returns.
func (a *assignment) assignWith(all []member, find func(*member) *server) {
	for i := range all {
		m := &all[i]
		if a.server[m.name] != nil || m.invalid != "" {
			continue
		}
		if s := find(m); s != nil && !a.taken[s] {
			a.server[m.name], a.taken[s] = s, true
		}
	}
}

// nextFree returns a free slot.
func (a *assignment) nextFree(m *member) *server {
	for len(a.free) > 0 && a.taken[a.free[0]] {
		a.free = a.free[1:]
	}
	if len(a.free) == 0 || !m.reachable() {
		return nil
	}
	return a.free[0]
}

// slotOfStopped returns a function that takes the slot of a container that does not run.
func (a *assignment) slotOfStopped(all []member) func(*member) *server {
	next := 0
	return func(m *member) *server {
		for ; m.reachable() && m.want == wantUp && next < len(all); next++ {
			other := &all[next]
			s := a.server[other.name]
			if s != nil && !other.reachable() && a.slots[s.name] == s && !s.setAside() {
				delete(a.server, other.name)
				delete(a.taken, s)
				return s
			}
		}
		return nil
	}
}

// rememberSlots keeps which member has which slot, and forgets slots that are free again or
// another member's.
func (p *plan) rememberSlots(slots map[string]*server) {
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
