package haproxy

import (
	"fmt"
	"net/netip"
	"strings"

	"healthd/runtime"
	"healthd/supervisor"
)

// want is what a server shall get.
type want uint8

const (
	wantDown  want = iota // no request
	wantDrain             // no new request; those under way go on
	wantUp                // requests
)

// member is a container, of this host or another one, that shall be a server of a backend.
type member struct {
	id          string
	run         runtime.Run
	name        string // of the container; HOST:CONTAINER of another host's
	agentName   string // what the agent check sends to healthd: SERVICE/NAME
	project     string // of Compose, unless a file names the service; empty: none
	address     netip.Addr
	port        int
	places      string // see placesOf
	want        want
	awaitsDrain bool // its healthd stops it once no request is under way
	unreached   bool // it is to get requests, and HAProxy has another network than the address that it has
	hostNetwork bool // it uses the host's

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
func members(all []supervisor.Member) map[string][]member {
	of, services := map[string][]supervisor.Member{}, map[string][]supervisor.Member{}
	for _, m := range all {
		if m.Backend != "" {
			of[m.Backend] = append(of[m.Backend], m)
		}
		services[m.Service] = append(services[m.Service], m)
	}
	asked := make(map[string]string, len(all)) // by ID
	for _, these := range services {
		for i, name := range supervisor.MemberNames(these) {
			asked[these[i].ID] = name
		}
	}
	backends := make(map[string][]member, len(of))
	for backend, these := range of {
		backends[backend] = membersOf(these, asked)
	}
	return backends
}

// membersOf returns the members of one backend. Containers with one name that may exist for long
// are servers with the names of supervisor.MemberNames. asked has the name in its service by
// which healthd finds each container.
func membersOf(these []supervisor.Member, asked map[string]string) []member {
	var all []member
	taken := map[string]int{} // index in all
	for i, name := range supervisor.MemberNames(these) {
		m := newMember(&these[i], name, asked[these[i].ID])
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

func newMember(of *supervisor.Member, name, asked string) member {
	m := member{id: of.ID, name: name, agentName: asked}
	if project, _, found := strings.Cut(of.Service, "/"); found && !of.Owned {
		m.project = project
	}
	if ask := of.Service + "/" + m.agentName; of.Service != "" && invalidCharacters(strings.Replace(of.Service, "/", "", 1)) == "" && len(ask) <= maxAgentName {
		m.agentName = ask
	}
	switch {
	case len(m.name) > maxName:
		m.invalid = fmt.Sprintf("container %s… cannot be a server: its name is longer than %d bytes", m.name[:32], maxName)
	case invalidCharacters(m.name) != "":
		m.invalid = fmt.Sprintf("container %s cannot be a server: HAProxy takes no %q in names", m.name, invalidCharacters(m.name))
	}
	m.follow(of)
	return m
}

// follow takes in what may change of a container while its names stay.
func (m *member) follow(of *supervisor.Member) {
	m.run, m.port, m.awaitsDrain, m.want = of.Run, of.Port, of.AwaitsDrain, wantDown
	m.address, _ = netip.ParseAddr(of.Address) // none: it has no network now
	m.places = placesOf(of)
	switch {
	case of.Ready:
		m.want = wantUp
	case of.DrainingReady:
		m.want = wantDrain
	}
	m.unreached = m.want != wantDown && of.Local != nil && of.Local.Address != "" && of.Address == ""
	m.hostNetwork = of.Local != nil && of.Local.HostNetwork
}
