package files

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"healthd/supervisor"
)

// Service is a service as templates see it. All its texts have letters, digits, "-", "_" and "." only, Name a slash
// between two of them, and the Container of another host's member a colon after the host.
type Service struct {
	Name    string // PROJECT/SERVICE, or NAME
	Plain   string // Name for files to which a slash means something; no two services have the same
	Project string // empty: it has none

	// Ready and Draining are those of All that are; All are sorted by address. Who has neither an address nor a
	// port is not there.
	Ready, Draining, All []*Member
}

// Member is a container of a service.
type Member struct {
	Container string // its name, or its ID where the name has other characters; of another host HOST:NAME
	Plain     string // Container for files to which a colon means something; no two containers have the same
	Host      string // of the fleet; empty: this one
	Address   string // an IP address
	Port      int
	HostPort  string // an IPv6 address is in brackets
	Ready     bool   // it takes new requests
	Draining  bool   // it takes no new ones, and still runs
	Service   string // Service.Name

	id string // of its container
}

// snapshot is what a file is made of.
type snapshot struct {
	services []*Service // sorted by name
	byName   map[string]*Service
	covers   func(service string) bool
	refused  []refusal
	taken    map[string]string // a service's name, by what readers take it for that do not tell letters' case
}

// refusal is a service that is left out, and why.
type refusal struct{ service, why string }

const breaksSyntax = "its name has other characters than letters, digits, -, _ and . with one slash at most"

const plainLetters = `[A-Za-z0-9_.-]+`

var (
	plainText   = regexp.MustCompile(`^` + plainLetters + `$`)
	serviceName = regexp.MustCompile(`^` + plainLetters + `(/` + plainLetters + `)?$`)
)

// maxServiceName is that of the configuration, in bytes.
const maxServiceName = 253

func isServiceName(s string) bool { return len(s) <= maxServiceName && serviceName.MatchString(s) }

// snapshotOf returns the services that a file covers, and those that were known before and have no containers any
// more.
func snapshotOf(all []supervisor.Service, covers func(string) bool, known []string) *snapshot {
	s := liveOf(all, covers, func(name string) bool { return slices.Contains(known, name) })
	for _, name := range known {
		s.addEmpty(name)
	}
	s.sort()
	return s
}

// liveOf returns the services that a file covers. Of names that differ in case only, which nginx takes for one and refuses
// with the whole file, it leaves out all but one: that of the operator, then one that was known before.
func liveOf(all []supervisor.Service, covers func(string) bool, known func(string) bool) *snapshot {
	s := &snapshot{byName: map[string]*Service{}, covers: covers, taken: map[string]string{}}
	rank := func(of *supervisor.Service) int {
		switch {
		case of.Owned:
			return 0
		case known(of.Name):
			return 1
		}
		return 2
	}
	ordered := make([]*supervisor.Service, len(all))
	for i := range all {
		ordered[i] = &all[i]
	}
	slices.SortStableFunc(ordered, func(a, b *supervisor.Service) int { return rank(a) - rank(b) })
	for _, of := range ordered {
		switch {
		case !covers(of.Name):
		case !isServiceName(of.Name):
			s.refused = append(s.refused, refusal{of.Name, breaksSyntax})
		default:
			if other := s.add(serviceOf(of)); other != "" {
				s.refused = append(s.refused, refusal{of.Name, "it differs from service " + other + " in the case of letters only"})
			}
		}
	}
	return s
}

func (s *snapshot) sort() {
	slices.SortFunc(s.services, func(a, b *Service) int { return strings.Compare(a.Name, b.Name) })
}

// add adds a service, or returns the one in whose place it would be.
func (s *snapshot) add(of *Service) (other string) {
	folded := strings.ToLower(of.Plain)
	if other, taken := s.taken[folded]; taken {
		return other
	}
	s.taken[folded] = of.Name
	s.services = append(s.services, of)
	s.byName[of.Name] = of
	return ""
}

// addEmpty adds a service without containers, if it is covered and not there.
func (s *snapshot) addEmpty(name string) {
	if s.byName[name] == nil && s.covers(name) && isServiceName(name) {
		s.add(emptyService(name))
	}
}

func emptyService(name string) *Service {
	return &Service{Name: name, Plain: supervisor.PlainName(name), Project: supervisor.Project(name)}
}

func serviceOf(from *supervisor.Service) *Service {
	type placed struct {
		*Member
		at netip.AddrPort
	}
	var members []placed
	for i := range from.Endpoints {
		if m, at, ok := memberOf(&from.Endpoints[i]); ok {
			m.Service = from.Name
			members = append(members, placed{m, at})
		}
	}
	slices.SortFunc(members, func(a, b placed) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.Container, b.Container), strings.Compare(a.id, b.id))
	})
	s := emptyService(from.Name)
	for _, m := range members {
		s.All = append(s.All, m.Member)
		if m.Ready {
			s.Ready = append(s.Ready, m.Member)
		}
		if m.Draining {
			s.Draining = append(s.Draining, m.Member)
		}
	}
	return s
}

// memberOf leaves out an endpoint to which nobody can send anything.
func memberOf(e *supervisor.Endpoint) (*Member, netip.AddrPort, bool) {
	at, ok := e.At()
	name, plain := containerText(e)
	return &Member{
		Container: name, Plain: plain, Host: hostText(e.Host), Address: at.Addr().String(), Port: e.Port, HostPort: at.String(),
		Ready: e.Ready, Draining: e.Draining, id: e.ID,
	}, at, ok
}

// containerText returns a container's name, or its ID, or what stands for that: containerd lets its clients choose both.
// plain is the same without a colon.
func containerText(e *supervisor.Endpoint) (name, plain string) {
	if e.Host == "" {
		name = textOf(e.ID, e.Container)
		return name, supervisor.PlainName(name)
	}
	name = textOf(e.ID, strings.TrimPrefix(e.Container, e.Host+":"), strings.TrimPrefix(e.ID, e.Host+"/"))
	host := hostText(e.Host)
	return host + ":" + name, supervisor.PlainName(host + "/" + name)
}

// hostText returns a host's name, or what stands for it; empty: it is this one.
func hostText(host string) string {
	if host == "" {
		return ""
	}
	return textOf(host)
}

// textOf returns the first of texts that no syntax takes for something else, or id, or what stands for that.
func textOf(id string, texts ...string) string {
	for _, text := range append(texts, id) {
		if len(text) <= maxServiceName && plainText.MatchString(text) {
			return text
		}
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// names returns the names of the services.
func (s *snapshot) names() []string {
	all := make([]string, len(s.services))
	for i, of := range s.services {
		all[i] = of.Name
	}
	return all
}

// destination is where requests go.
type destination struct{ service, hostPort string }

// ready returns where requests may go to.
func (s *snapshot) ready() map[destination]bool {
	all := map[destination]bool{}
	for _, of := range s.services {
		for _, m := range of.Ready {
			all[destination{of.Name, m.HostPort}] = true
		}
	}
	return all
}

// readyContainers returns the IDs of the containers to which requests may go.
func (s *snapshot) readyContainers() map[string]bool {
	all := map[string]bool{}
	for _, of := range s.services {
		for _, m := range of.Ready {
			all[m.id] = true
		}
	}
	return all
}

// version returns a text that is another one when anything of the services is.
func (s *snapshot) version() string {
	h := sha256.New()
	for _, of := range s.services {
		h.Write([]byte(of.Name + "\n"))
		for _, m := range of.All {
			h.Write([]byte(m.Container + " " + m.HostPort + " " + strconv.FormatBool(m.Ready) + " " + strconv.FormatBool(m.Draining) + "\n"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
