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
	Endpoints []Endpoint // sorted by container; at least one
}

// Endpoint is a container of a service. At most one of Ready and Draining is true.
type Endpoint struct {
	Container string // its name, by which Board.Find finds it
	ID        string
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

// Services returns all services, sorted by name. It costs as much as the board has containers: keep what
// it returned until the channel is closed that Changed returned before.
func (b *Board) Services() []Service { return b.servicesOf(func(*core.View) bool { return true }) }

// ServicesSynced is Services without the containers of runtimes that are not Synced. all says that there are none of these.
func (b *Board) ServicesSynced() (services []Service, all bool) {
	missing := map[string]bool{}
	for name, r := range b.runtimes.all {
		if !r.Synced {
			missing[name] = true
		}
	}
	return b.servicesOf(func(v *core.View) bool { return !missing[v.Container.Runtime] }), len(missing) == 0
}

func (b *Board) servicesOf(wanted func(*core.View) bool) []Service {
	members := map[string][]*core.View{}
	for _, v := range b.sorted(wanted) {
		if v.Service != "" {
			members[v.Service] = append(members[v.Service], v)
		}
	}
	all := make([]Service, 0, len(members))
	for name, of := range members {
		owned := slices.ContainsFunc(of, func(v *core.View) bool { return serviceOf(v).owned })
		all = append(all, Service{Name: name, Owned: owned, Endpoints: Endpoints(of)})
	}
	slices.SortFunc(all, func(x, y Service) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// Endpoints returns the endpoints of a service's containers, in their order.
func Endpoints(members []*core.View) []Endpoint {
	all := make([]Endpoint, len(members))
	for i, name := range NamesAmong(members) {
		v := members[i]
		ready, _, _ := v.Readiness()
		all[i] = Endpoint{Container: name, ID: v.Container.ID, Address: v.Container.Address, Ready: ready, Draining: v.State.Draining()}
		if v.Spec != nil {
			all[i].Port = v.Spec.Publish.Port
		}
	}
	return all
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
