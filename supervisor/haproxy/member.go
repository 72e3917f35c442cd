package haproxy

import (
	"fmt"
	"net/netip"
	"strings"

	"healthd/runtime"
	"healthd/supervisor"
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
	of, services := map[string][]*core.View{}, map[string][]*core.View{}
	for _, v := range views {
		if v.Spec != nil && v.Spec.Publish.HAProxy.Backend != "" {
			of[v.Spec.Publish.HAProxy.Backend] = append(of[v.Spec.Publish.HAProxy.Backend], v)
		}
		services[v.Service] = append(services[v.Service], v)
	}
	asked := make(map[string]string, len(views)) // by ID
	for _, views := range services {
		for i, name := range supervisor.NamesAmong(views) {
			asked[views[i].Container.ID] = name
		}
	}
	backends := make(map[string][]member, len(of))
	for backend, views := range of {
		backends[backend] = membersOf(views, asked)
	}
	return backends
}

// membersOf returns the members of one backend. Containers with one name that may exist for long
// are servers with the names of supervisor.NamesAmong. asked has the name in its service by
// which healthd finds each container.
func membersOf(views []*core.View, asked map[string]string) []member {
	var all []member
	taken := map[string]int{} // index in all
	for i, name := range supervisor.NamesAmong(views) {
		m := newMember(views[i], name, asked[views[i].Container.ID])
		at, clash := taken[name]
		if !clash {
			taken[name] = len(all)
			all = append(all, m)
			continue
		}
		if m.reachable() && (!all[at].reachable() || m.want > all[at].want) {
			all[at] = m
		}
		all[at].duplicateName = true
	}
	return all
}

func newMember(v *core.View, name, asked string) member {
	m := member{id: v.Container.ID, name: name, agentName: asked}
	if ask := v.Service + "/" + m.agentName; v.Service != "" && invalidCharacters(strings.Replace(v.Service, "/", "", 1)) == "" && len(ask) <= maxAgentName {
		m.agentName = ask
	}
	switch {
	case len(m.name) > maxName:
		m.invalid = fmt.Sprintf("container %s… cannot be a server: its name is longer than %d bytes", m.name[:32], maxName)
	case invalidCharacters(m.name) != "":
		m.invalid = fmt.Sprintf("container %s cannot be a server: HAProxy takes no %q in names", m.name, invalidCharacters(m.name))
	}
	m.follow(v)
	return m
}

// follow takes in what may change of a container while its names stay.
func (m *member) follow(v *core.View) {
	m.run, m.port, m.awaitsDrain, m.want = v.State.Run.ID, v.Spec.Publish.Port, v.State.AwaitsDrain(), wantDown
	m.address, _ = netip.ParseAddr(v.Container.Address) // none: it has no network now
	ready, _, _ := v.Readiness()
	switch {
	case ready:
		m.want = wantUp
	case v.DrainingReady():
		m.want = wantDrain
	}
}
