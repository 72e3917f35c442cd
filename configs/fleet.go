package configs

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

const (
	fleetSection = "fleet"

	defaultPrefix = "/healthd/"
	defaultTTL    = 10 * time.Second
	// defaultFleetDrain is for those who read files or ask by DNS on other hosts: HAProxy says itself when it is done.
	defaultFleetDrain = 3 * time.Second
	// fleetWithin is what a withdrawal needs at most until the balancers of other hosts know, while etcd answers.
	fleetWithin = 3 * time.Second

	onStopKeep  = "keep"
	onStopLeave = "leave"

	scopeHost  = "host"
	scopeFleet = "fleet"

	unreachableLocal = "local"
	unreachableWait  = "wait"
)

// Fleet says how this host is one of many, over etcd.
type Fleet struct {
	Endpoints []string // URLs of etcd's members, all http or all https; no two are the same
	Prefix    string   // of all keys; begins and ends with a slash
	// Host is what the others call this host; empty: by the host's own name, see HostName.
	Host string
	// Advertise is the address at which other hosts reach what containers publish; zero: none, with which there is
	// no engine.
	Advertise netip.Addr
	TTL       time.Duration // how long the members of a host that died are kept

	CAFile, CertFile, KeyFile string // absolute paths; CertFile and KeyFile: both or none
	User, PasswordFile        string // both or none

	Leave bool          // a daemon that ends takes its members away at once
	Drain time.Duration // what balancers of other hosts need until their last new request

	at, advertiseAt, userAt place
}

// readFleet reads how this host is one of many; nil: it is not. engines says whether it has containers of its own.
func readFleet(t *table, engines bool) *Fleet {
	f := &Fleet{
		Endpoints: t.fleetEndpoints("endpoints"),
		Prefix:    t.keyPrefix("prefix"),
		Advertise: t.advertise("advertise", engines),
		TTL:       t.duration("ttl", defaultTTL, span[time.Duration]{5 * time.Second, 5 * time.Minute}),
		CAFile:    t.file("ca_file"), CertFile: t.file("cert_file"), KeyFile: t.file("key_file"),
		PasswordFile: t.file("password_file"),
		Leave:        t.choice("on_stop", onStopKeep, onStopLeave) == onStopLeave,
		Drain:        t.duration("drain", defaultFleetDrain, span[time.Duration]{0, longestOutletDrain}),
	}
	if t.take("host") != nil {
		f.Host = t.text("host", "", checkFleetHost)
	}
	if t.take("user") != nil {
		f.User = t.text("user", "", checkUser)
	}
	t.done()
	if t.n == nil {
		return nil
	}
	t.together("cert_file", "key_file")
	t.together("user", "password_file")
	if len(f.Endpoints) > 0 && !strings.HasPrefix(f.Endpoints[0], "https:") {
		for _, key := range pemKeys() {
			t.forbid(key, "needs endpoints that begin with https://")
		}
	}
	f.at = t.n.at
	for key, at := range map[string]*place{"advertise": &f.advertiseAt, "user": &f.userAt} {
		if n := t.n.fields[key]; n != nil {
			*at = n.at
		}
	}
	return f
}

// together reports one of two keys without the other.
func (t *table) together(a, b string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if t.has(pair[0]) && !t.has(pair[1]) {
			t.wrong(t.n.fields[pair[0]], t.at(pair[0]), "needs %s", pair[1])
		}
	}
}

// file reads the absolute path of a file; empty: none.
func (t *table) file(key string) string {
	if t.take(key) == nil {
		return ""
	}
	return t.text(key, "", checkFile)
}

// fleetEndpoints reads the URLs of etcd's members.
func (t *table) fleetEndpoints(key string) []string {
	if t.n == nil {
		t.take(key)
		return nil
	}
	if t.missing(key) {
		return nil
	}
	n := t.n.fields[key]
	for i, item := range n.items {
		if item.textual() && strings.Contains(item.text, "@") {
			t.wrong(item, t.at(key)+index(i), "must not have a user: write user and password_file (it may have a password, so it is not shown here)")
			return nil
		}
	}
	const most = 16
	all := t.distinct(key, key, most, checkFleetEndpoint, sameFleetEndpoint)
	if n.kind == arrayKind && len(n.items) == 0 {
		t.wrong(n, t.at(key), "must have the URL of a member of etcd")
	}
	for i, endpoint := range all {
		if endpoint != "" && all[0] != "" && fleetScheme(endpoint) != fleetScheme(all[0]) {
			t.wrong(n.items[i], t.at(key)+index(i), "must begin with %s://, as the first one does", fleetScheme(all[0]))
		}
	}
	return all
}

func fleetScheme(endpoint string) string {
	scheme, _, _ := strings.Cut(endpoint, "://")
	return scheme
}

// checkFleetEndpoint takes nothing that etcd's client would leave out, such as a path.
func checkFleetEndpoint(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || checkHost(u.Hostname()) != "" || !isPort(u.Port(), 1) ||
		s != u.Scheme+"://"+u.Host {
		return `must be http or https, a host and a port, such as "https://10.0.0.1:2379"`
	}
	return ""
}

func sameFleetEndpoint(s string) string { return strings.ToLower(s) }

// keyPrefix reads what all keys in etcd begin with.
func (t *table) keyPrefix(key string) string {
	s := t.text(key, defaultPrefix, checkKeyPrefix)
	if !strings.HasSuffix(s, "/") {
		s += "/"
	}
	return s
}

func checkKeyPrefix(s string) string {
	const most = 128 // with the slash at its end
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if !strings.HasPrefix(s, "/") || len(strings.TrimSuffix(s, "/")) >= most || strings.ContainsFunc(s, odd) {
		return `must be at most 128 printable ASCII characters without blanks, a / first, such as "/healthd/"`
	}
	return ""
}

// advertise reads an address at which other hosts reach this one. A host with containers needs one.
func (t *table) advertise(key string, needed bool) netip.Addr {
	if t.take(key) == nil {
		if t.n != nil && needed {
			t.missing(key)
		}
		return netip.Addr{}
	}
	ip, _ := netip.ParseAddr(t.text(key, "", checkAdvertise))
	return ip.Unmap()
}

func checkAdvertise(s string) string {
	ip, err := netip.ParseAddr(s)
	if ip = ip.Unmap(); err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return "must be the IP address of this host at which other hosts reach it, without port or zone"
	}
	return ""
}

var fleetHostForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkFleetHost takes nothing with a colon or a slash, which end a host's name where one is written.
func checkFleetHost(s string) string {
	switch {
	case !fleetHostForm.MatchString(s):
		return "must be 1 to 64 letters, digits, -, _ and ."
	case s == "id":
		return `must not be "id", which begins the name of a container by its ID`
	}
	return ""
}

func checkUser(s string) string {
	const most = 128
	if s == "" || len(s) > most || checkLine(s) != "" {
		return "must be 1 to 128 bytes without control characters"
	}
	return ""
}

// HostName returns what the others call this host, whose own name is hostname. The error says at which place of the
// configuration to name it, where that name is none that a fleet takes.
func (f *Fleet) HostName(hostname string) (string, error) {
	if f.Host != "" {
		return f.Host, nil
	}
	if wrong := checkFleetHost(hostname); wrong != "" {
		return "", Problems{f.at.problem(fleetSection+".host", "is not set, and the host's own name %s, is %s", wrong, quote(hostname))}
	}
	return hostname, nil
}

// outlet is what the drains of all services wait for: until other hosts know, and for the last requests of their balancers.
func (f *Fleet) outlet() *outlet {
	o := newOutlet("[fleet]", f.at, anyService, f.Drain, fleetWithin)
	o.notHAProxy = true
	return o
}

// fleetNeedsRestart returns the keys in which next differs; nil is no fleet.
func (f *Fleet) fleetNeedsRestart(next *Fleet) []string {
	if f == nil || next == nil {
		if f == next {
			return nil
		}
		return []string{fleetSection}
	}
	var keys []string
	for _, setting := range []struct {
		key  string
		same bool
	}{
		{"endpoints", slices.Equal(f.Endpoints, next.Endpoints)},
		{"prefix", f.Prefix == next.Prefix},
		{"host", f.Host == next.Host},
		{"advertise", f.Advertise == next.Advertise},
		{"ttl", f.TTL == next.TTL},
		{"ca_file", f.CAFile == next.CAFile},
		{"cert_file", f.CertFile == next.CertFile},
		{"key_file", f.KeyFile == next.KeyFile},
		{"user", f.User == next.User},
		{"password_file", f.PasswordFile == next.PasswordFile},
		{"on_stop", f.Leave == next.Leave},
		{"drain", f.Drain == next.Drain},
	} {
		if !setting.same {
			keys = append(keys, fleetSection+"."+setting.key)
		}
	}
	return keys
}

// checkScope reports a group over all hosts where there is no fleet. n is the group's spec, or a layer of it.
func (l *loader) checkScope(prefix string, n *node) Problems {
	scope := n.below("group.scope")
	if scope == nil || scope.text != scopeFleet || l.sections[fleetSection] != nil || l.incomplete {
		return nil
	}
	return Problems{scope.at.problem(prefix+"group.scope", "needs [fleet], which says how healthd reaches the other hosts")}
}

// warnFleet warns of what other hosts cannot use, and of what does not bear many of them.
func (c *Config) warnFleet() Problems {
	f := c.Fleet
	if f == nil {
		return nil
	}
	var found Problems
	if f.Advertise.IsLoopback() {
		found = append(found, f.advertiseAt.problem(fleetSection+".advertise", "is %s, at which other hosts reach themselves and not this one", f.Advertise))
	}
	if f.User != "" {
		found = append(found, f.userAt.problem(fleetSection+".user",
			"is for few hosts: etcd spends about 0.1 s of CPU time on each check of a password, and checks it with each renewal: use client certificates (cert_file and key_file)"))
	}
	return found
}

// waitsForNobody warns of what only counts where the group is one over all hosts.
func (s *fileSpec) waitsForNobody(spec *core.Spec) string {
	if s.own.below("group.unreachable") == nil || spec.Group.Fleet {
		return ""
	}
	return "has no effect without scope = " + quoteTOML(scopeFleet)
}
