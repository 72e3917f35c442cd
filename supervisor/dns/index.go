package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"healthd/supervisor"
)

// index has all names of the zone at one moment. It never changes.
type index struct {
	changed  <-chan struct{} // closed when the board shows something else
	gaps     bool            // it has no containers of an engine that is away, or of other hosts
	alone    bool            // it has all of this host's
	nodes    map[string]node // by name, in lower case
	problems []problem       // sorted
	unserved int             // services without a name
}

// node is what a name stands for. A name above one of these has a node, too, with nothing in it.
type node struct {
	exists  bool
	service *service
	host    netip.Addr // of a container
	why     string     // nobody has the name
}

// service is what is answered for one. It has only endpoints that are ready and can be reached.
type service struct {
	name      string // in DNS
	full      string // as the board calls it
	endpoints []endpoint
	v4, v6    []netip.Addr // each once
}

type endpoint struct {
	id     string
	target string // its name in the zone; empty: others have all that it might have
	ip     netip.Addr
	port   uint16
}

// problem is why something is not answered for.
type problem struct {
	about string // the same as long as the problem lasts
	text  string
}

// claim is a name that a service might have.
type claim struct {
	of    *supervisor.Service
	short bool // it leaves the project out
}

func newIndex(services []supervisor.Service) *index {
	x := &index{nodes: map[string]node{zone: {exists: true}}}
	claims := map[string][]claim{}
	for i := range services {
		s := &services[i]
		name, wrong := nameOf(s)
		if wrong != "" {
			x.unserved++
			x.problems = append(x.problems, problem{s.Name, fmt.Sprintf("DNS does not answer for the service %s: %s", s.Name, wrong)})
			continue
		}
		claims[name] = append(claims[name], claim{s, false})
		if short := shortNameOf(s.Name); short != "" {
			claims[short] = append(claims[short], claim{s, true})
		}
	}
	served := map[*supervisor.Service]*service{}
	for name, all := range claims {
		if of := holderOf(all); of != nil && isOwn(all, of) {
			served[of] = &service{name: name, full: of.Name}
			x.put(name, func(n *node) { n.service = served[of] })
		}
	}
	for name, all := range claims {
		x.settle(name, all, served)
	}
	for i := range services {
		if s := served[&services[i]]; s != nil {
			x.addEndpoints(s, &services[i])
		}
	}
	slices.SortFunc(x.problems, func(a, b problem) int { return strings.Compare(a.about, b.about) })
	return x
}

// holderOf returns the service that has a name: the one that a file calls so, else the only one. Nobody has a name
// that several might have. It is as Board.FindService says.
func holderOf(claims []claim) *supervisor.Service {
	var named *supervisor.Service
	for _, c := range claims {
		if c.short || !c.of.Owned {
			continue
		}
		if named != nil {
			return nil
		}
		named = c.of
	}
	if named == nil && len(claims) == 1 {
		return claims[0].of
	}
	return named
}

// isOwn says that the name is the one of a service, and not short for it.
func isOwn(claims []claim, of *supervisor.Service) bool {
	return slices.Contains(claims, claim{of, false})
}

// settle gives a name to the service that it is short for, and says what comes of those that do not have it.
func (x *index) settle(name string, claims []claim, served map[*supervisor.Service]*service) {
	of := holderOf(claims)
	if of != nil && served[of] != nil {
		x.put(name, func(n *node) { n.service = served[of] })
	} else {
		n := x.nodes[name]
		n.why = "several services have that name: " + namesOf(claims)
		if of != nil {
			n.why = "another service has the whole name of " + of.Name
		}
		x.nodes[name] = n
	}
	lost := slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.short || c.of == of })
	if len(lost) == 0 {
		return
	}
	x.unserved += len(lost)
	text := fmt.Sprintf("DNS answers nothing for %s: several services have that name: %s", strings.TrimSuffix(name, "."), namesOf(claims))
	if of != nil {
		text = fmt.Sprintf("DNS does not answer for %s: a file gives the name %s to the service %s", namesOf(lost), strings.TrimSuffix(name, "."), of.Name)
	}
	x.problems = append(x.problems, problem{name, text})
}

func namesOf(claims []claim) string {
	const most = 5
	var names []string
	for _, c := range claims {
		names = append(names, c.of.Name)
	}
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// put makes a name exist, and all above it: who is told that a name does not exist may ask for none below it.
func (x *index) put(name string, change func(*node)) {
	n := x.nodes[name]
	n.exists = true
	change(&n)
	x.nodes[name] = n
	for above := parent(name); above != zone; above = parent(above) {
		n := x.nodes[above]
		if n.exists {
			break // and so do those above
		}
		n.exists = true
		x.nodes[above] = n
	}
}

func parent(name string) string { return name[strings.IndexByte(name, '.')+1:] }

// addEndpoints gives each container with an address a name of its own. It has it also while it is not ready: who
// has got the name a moment ago may ask for it late.
func (x *index) addEndpoints(s *service, of *supervisor.Service) {
	tries := triesFor(of)
	for i := range of.Endpoints {
		e := &of.Endpoints[i]
		ip, ok := e.IP()
		if !ok {
			continue
		}
		target := x.targetOf(e, s.name, tries)
		if target != "" {
			x.nodes[target] = node{exists: true, host: ip}
		}
		if at, ok := e.At(); ok && e.Ready {
			s.endpoints = append(s.endpoints, endpoint{e.ID, target, at.Addr(), at.Port()})
		}
	}
	s.sum()
}

// targetOf returns a name below a service's that is still free.
func (x *index) targetOf(e *supervisor.Endpoint, base string, tries []labelTry) string {
	for _, try := range tries {
		label := try(e)
		if !isLabel(label) || len(label)+1+len(base) > fullLength {
			continue
		}
		target := strings.ToLower(label) + "." + base
		if n := x.nodes[target]; n.service == nil && !n.host.IsValid() && n.why == "" {
			return target
		}
	}
	return ""
}

// sum makes the addresses of the endpoints. Containers in the host's network share one.
func (s *service) sum() {
	for _, e := range s.endpoints {
		if e.ip.Is4() {
			s.v4 = append(s.v4, e.ip)
		} else {
			s.v6 = append(s.v6, e.ip)
		}
	}
	for _, all := range []*[]netip.Addr{&s.v4, &s.v6} {
		slices.SortFunc(*all, netip.Addr.Compare)
		*all = slices.Compact(*all)
	}
}

// live returns the service as the board shows it now, without what is new since the index was made.
func (s *service) live(board *supervisor.Board) *service {
	now := &service{name: s.name, full: s.full}
	for _, e := range s.endpoints {
		m, there := board.Member(e.id)
		if !there || !m.Ready || m.Service != s.full {
			continue
		}
		// Another host's may have another port after a restart, at the same address.
		shown := supervisor.Endpoint{Address: m.Address, Port: m.Port}
		if at, ok := shown.At(); ok && at == netip.AddrPortFrom(e.ip, e.port) {
			now.endpoints = append(now.endpoints, e)
		}
	}
	now.sum()
	return now
}
