package haproxy

import (
	"net/netip"
)

// assign finds the server of each member: that of its name where it is no slot, else
// the slot that it had, the one with its address, the one of its name, or a free one.
func (p *plan) assign(all []member) {
	p.server = make(map[string]*server, len(all))
	named, slots := make(map[string]*server, len(p.servers)), make(map[string]*server)
	addressed := make(map[netip.AddrPort]*server)
	var free []*server
	for _, s := range p.servers {
		switch {
		case !p.slot(s):
			named[s.name] = s
			continue
		case s.free():
			free = append(free, s)
		default:
			addressed[netip.AddrPortFrom(s.address, uint16(s.port))] = s
		}
		slots[s.name] = s
	}
	taken := make(map[*server]bool, len(all))
	pass := func(find func(m *member) *server) {
		for i := range all {
			m := &all[i]
			if s := find(m); p.server[m.name] == nil && s != nil && !taken[s] {
				p.server[m.name], taken[s] = s, true
			}
		}
	}
	pass(func(m *member) *server { return named[m.name] })
	pass(func(m *member) *server { return slots[p.slots[m.name]] })
	pass(func(m *member) *server { return addressed[netip.AddrPortFrom(m.address, uint16(m.port))] })
	pass(func(m *member) *server { return slots[m.name] })
	pass(func(m *member) *server {
		for len(free) > 0 && taken[free[0]] {
			free = free[1:]
		}
		if len(free) == 0 || !m.reachable() {
			return nil
		}
		return free[0]
	})
	p.noteSlots(slots)
}

// noteSlots keeps which slot is whose, and forgets those that are free again.
func (p *plan) noteSlots(slots map[string]*server) {
	for member, name := range p.slots {
		if s := slots[name]; p.server[member] == nil && (s == nil || s.free()) {
			delete(p.slots, member)
		}
	}
	for member, s := range p.server {
		if slots[s.name] == s {
			p.slots[member] = s.name
		}
	}
}
