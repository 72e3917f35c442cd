package haproxy

import (
	"fmt"
	"net/netip"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// want is what HAProxy is to do with a server.
type want uint8

const (
	wantDown  want = iota // no request
	wantDrain             // no new request
	wantUp
)

// member is a container that is to be a server.
type member struct {
	id      string
	run     runtime.Run
	name    string // of the container
	ask     string // for healthd's agent listener: SERVICE/NAME
	address netip.Addr
	port    int
	want    want
	awaits  bool // healthd stops it as soon as nothing is under way there

	wrong string // why it cannot be a server
	clash bool   // another container has the same name
}

// The most that HAProxy's command line takes with ease, and healthd's agent listener.
const (
	maxName = 255
	maxAsk  = 255
)

// target is where requests have to go.
func (m *member) target() netip.AddrPort { return netip.AddrPortFrom(m.address, uint16(m.port)) }

// reachable says that it is known where requests have to go.
func (m *member) reachable() bool { return m.address.IsValid() && m.port > 0 }

// members returns who is to be in which backend. HAProxy can have one server of a name:
// of several containers that one is taken which can do the most.
func members(views []*core.View) map[string][]member {
	type place struct{ backend, name string }
	taken := map[place]int{} // where it is in the backend
	backends := map[string][]member{}
	for _, v := range views {
		if v.Spec == nil || v.Spec.Publish.HAProxy.Backend == "" {
			continue
		}
		m, at := newMember(v), place{v.Spec.Publish.HAProxy.Backend, v.Container.Name}
		all := backends[at.backend]
		i, clash := taken[at]
		if !clash {
			taken[at] = len(all)
			backends[at.backend] = append(all, m)
			continue
		}
		if m.reachable() && (!all[i].reachable() || m.want > all[i].want) {
			all[i] = m
		}
		all[i].clash = true
	}
	return backends
}

func newMember(v *core.View) member {
	m := member{
		id: v.Container.ID, run: v.State.Run.ID, name: v.Container.Name, ask: v.Container.Name,
		port: v.Spec.Publish.Port, awaits: v.State.AwaitsDrain(),
	}
	if ask := v.Service + "/" + m.ask; v.Service != "" && odd(v.Service) == "" && len(ask) <= maxAsk {
		m.ask = ask
	}
	switch {
	case len(m.name) > maxName:
		m.wrong = fmt.Sprintf("container %s… cannot be a server: its name is longer than %d bytes", m.name[:32], maxName)
	case odd(m.name) != "":
		m.wrong = fmt.Sprintf("container %s cannot be a server: HAProxy takes no %q in names", m.name, odd(m.name))
	}
	m.address, _ = netip.ParseAddr(v.Container.Address) // none: it has no network now
	ready, _, _ := v.Readiness()
	switch {
	case ready:
		m.want = wantUp
	case v.DrainingReady():
		m.want = wantDrain
	}
	return m
}
