package supervisor

import (
	"net/netip"
	"slices"
	"strings"

	"healthd/supervisor/core"
)

// Service is a service with its endpoints, as those see it who send traffic. It never changes.
type Service struct {
	Name      string     // PROJECT/SERVICE, or NAME
	Owned     bool       // a file names it: see core.Publish
	Endpoints []Endpoint // this host's come first, then those of each other host, sorted by container; at least one
}

// Endpoint is a container of a service. At most one of Ready and Draining is true.
type Endpoint struct {
	Container string // its name, by which Board.FindMember finds it
	Host      string // of the fleet; empty: this one
	ID        string // see Member.ID
	Phase     core.Phase
	Address   string // an IP address; empty: it has none
	Port      int    // publish.port; 0: not given
	Ready     bool   // it takes new requests
	Draining  bool   // it takes no new ones, and still runs
}

// Project returns the part of a service's name before the slash; empty: it has none.
func Project(service string) string {
	project, _, found := strings.Cut(service, "/")
	if !found {
		return ""
	}
	return project
}

// IP returns the endpoint's address; false: it has none, or one that means something on this host only.
func (e *Endpoint) IP() (netip.Addr, bool) {
	ip, err := netip.ParseAddr(e.Address)
	return ip.Unmap(), err == nil && ip.Zone() == ""
}

// At returns where traffic for the endpoint goes; false: nobody can send it any.
func (e *Endpoint) At() (netip.AddrPort, bool) {
	ip, ok := e.IP()
	if !ok || e.Port < 1 || e.Port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip, uint16(e.Port)), true
}

// Services returns all services, sorted by name, with their members on all hosts. It costs as much as the board has
// containers and members: keep what it returned until the channel is closed that Changed returned before.
func (b *Board) Services() []Service { return b.servicesOf(func(*core.View) bool { return true }) }

// ServicesSynced is Services without the containers of runtimes that are not Synced. all says that there are none of
// these, and that the members of other hosts are known.
func (b *Board) ServicesSynced() (services []Service, all bool) {
	missing := map[string]bool{}
	for name, r := range b.runtimes.all {
		if !r.Synced {
			missing[name] = true
		}
	}
	all = len(missing) == 0 && b.remoteComplete() // before the look, which then sees them
	return b.servicesOf(func(v *core.View) bool { return !missing[v.Container.Runtime] }), all
}

func (b *Board) servicesOf(wanted func(*core.View) bool) []Service {
	local, others := map[string][]*core.View{}, map[string][]*Member{}
	for _, v := range b.sorted(wanted) {
		if v.Service != "" {
			local[v.Service] = append(local[v.Service], v)
		}
	}
	for _, m := range b.remote.sorted(func(m *Member) bool { return m.Service != "" }) {
		others[m.Service] = append(others[m.Service], m)
	}
	all := make([]Service, 0, len(local))
	for name, views := range local {
		all = append(all, serviceWith(name, views, others[name]))
	}
	for name, members := range others {
		if local[name] == nil {
			all = append(all, serviceWith(name, nil, members))
		}
	}
	slices.SortFunc(all, func(x, y Service) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// serviceWith returns a service with these containers of this host, in their order, and then those of others.
func serviceWith(name string, local []*core.View, others []*Member) Service {
	s := Service{Name: name, Endpoints: make([]Endpoint, 0, len(local)+len(others))}
	for i, name := range NamesAmong(local) {
		v := local[i]
		e := Endpoint{Container: name, ID: v.Container.ID, Phase: v.Phase(), Draining: v.State.Draining()}
		e.Ready, _, _ = v.Readiness()
		e.Address, e.Port = v.Address()
		s.Owned = s.Owned || serviceOf(v).owned
		s.Endpoints = append(s.Endpoints, e)
	}
	for _, m := range others {
		s.Owned = s.Owned || m.Owned
		s.Endpoints = append(s.Endpoints, Endpoint{
			Container: m.RemoteName(), Host: m.Host, ID: m.ID, Phase: m.Phase, Address: m.Address, Port: m.Port, Ready: m.Ready, Draining: m.Draining,
		})
	}
	return s
}

// Phase returns the service's phase: see core.ServicePhase.
func (s *Service) Phase() core.Phase {
	phases := make([]core.Phase, len(s.Endpoints))
	for i := range s.Endpoints {
		phases[i] = s.Endpoints[i].Phase
	}
	return core.PhaseOfAll(phases)
}

// PlainName writes a service's name with letters, digits, "-", "_" and "." only, for files and protocols to which a slash
// means something: shop/web is shop--web. No two services have the same one, so a "-" of the name itself becomes "-_"
// where it would be read as a part of that.
func PlainName(service string) string {
	var b strings.Builder
	for i, c := range []byte(service) {
		switch {
		case c == '/':
			b.WriteString("--")
		case c == '-' && i+1 < len(service) && strings.IndexByte("-_/", service[i+1]) >= 0:
			b.WriteString("-_")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
