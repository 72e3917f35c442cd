package haproxy

import (
	"net/netip"

	"healthd/runtime"
	"healthd/supervisor"
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
}

// reachable says that it is known where requests have to go.
func (m *member) reachable() bool { return m.address.IsValid() && m.port > 0 }

// members returns who is to be in which backend. Of two containers of the same name the
// first is taken: HAProxy can have one server of a name.
func members(views []*supervisor.View) map[string][]member {
	type place struct{ backend, name string }
	taken := map[place]bool{}
	backends := map[string][]member{}
	for _, v := range views {
		if v.Spec == nil || v.Spec.Publish.HAProxy.Backend == "" {
			continue
		}
		backend := v.Spec.Publish.HAProxy.Backend
		m := newMember(v)
		if at := (place{backend, m.name}); !taken[at] {
			taken[at] = true
			backends[backend] = append(backends[backend], m)
		}
	}
	return backends
}

func newMember(v *supervisor.View) member {
	m := member{
		id: v.Container.ID, run: v.State.Run, name: v.Container.Name, ask: v.Container.Name,
		port: v.Spec.Publish.Port, awaits: v.State.AwaitsDrain(),
	}
	if v.Service != "" && odd(v.Service) == "" {
		m.ask = v.Service + "/" + m.ask
	}
	m.address, _ = netip.ParseAddr(v.Container.Address) // none: it has no network now
	ready, _, _ := v.Readiness()
	switch {
	case ready:
		m.want = wantUp
	case v.Finishing():
		m.want = wantDrain
	}
	return m
}
