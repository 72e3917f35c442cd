package haproxy

import (
	"fmt"
	"net/netip"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// want is what a server shall get.
type want uint8

const (
	wantDown  want = iota // no request
	wantDrain             // no new request; those under way go on
	wantUp                // requests
)

// member is a container that shall be a server of a backend.
type member struct {
	id          string
	run         runtime.Run
	name        string // of the container
	agentName   string // what the agent check sends to healthd: SERVICE/NAME
	address     netip.Addr
	port        int
	want        want
	awaitsDrain bool // healthd stops it once no request is under way

	invalid       string // why it cannot be a server
	duplicateName bool   // another container has the same name
}

// Bounds, in bytes: of HAProxy's command line, and of healthd's agent listener.
const (
	maxName      = 255
	maxAgentName = 255
)

// target is the address and port for requests.
func (m *member) target() netip.AddrPort { return netip.AddrPortFrom(m.address, uint16(m.port)) }

// reachable says that address and port are known.
func (m *member) reachable() bool { return m.address.IsValid() && m.port > 0 }

// members returns the members of each backend. A backend can have one server of a name: of
// several containers with the same name, the one that can take most traffic is chosen.
func members(views []*core.View) map[string][]member {
	type place struct{ backend, name string }
	taken := map[place]int{} // index in the backend's members
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
		all[i].duplicateName = true
	}
	return backends
}

func newMember(v *core.View) member {
	m := member{
		id: v.Container.ID, run: v.State.Run.ID, name: v.Container.Name, agentName: v.Container.Name,
		port: v.Spec.Publish.Port, awaitsDrain: v.State.AwaitsDrain(),
	}
	if ask := v.Service + "/" + m.agentName; v.Service != "" && invalidCharacters(v.Service) == "" && len(ask) <= maxAgentName {
		m.agentName = ask
	}
	switch {
	case len(m.name) > maxName:
		m.invalid = fmt.Sprintf("container %s… cannot be a server: its name is longer than %d bytes", m.name[:32], maxName)
	case invalidCharacters(m.name) != "":
		m.invalid = fmt.Sprintf("container %s cannot be a server: HAProxy takes no %q in names", m.name, invalidCharacters(m.name))
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
