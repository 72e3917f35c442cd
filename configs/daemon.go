package configs

import (
	"cmp"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"healthd/supervisor/core"
)

const (
	defaultHTTP    = "127.0.0.1:8646"
	defaultAgent   = "127.0.0.1:8647"
	defaultControl = "/run/healthd/control.sock"
	defaultState   = "/var/lib/healthd"
	defaultRelist  = time.Minute

	defaultShutdown = 30 * time.Second

	defaultContainerd = "unix:///run/containerd/containerd.sock"
	defaultNamespace  = "default"

	maxRestarts   = 1_000_000 // only catches slips
	maxNamespaces = 100
	maxHosts      = 100
)

// The types of runtimes.
const (
	typeDocker     = "docker"
	TypeContainerd = "containerd"
)

// readDaemon reads the settings of the daemon itself.
func readDaemon(c *Config, l *loader) Problems {
	r, sections := &reader{}, l.sections
	section := func(key string) *table { return &table{reader: r, n: sections[key], path: key} }
	c.Listen = readListen(section("listen"))
	if n := sections["listen"].below("control_group"); n != nil {
		c.controlGroup = n.at
	}
	c.State = readState(section("state"))
	c.Daemon, c.Observe = readDaemonSection(section("daemon"))
	if n := sections["daemon"].below("mode"); n != nil {
		c.mode = n.at
	}
	c.Log = readLog(section("log"))
	c.Guard = readGuard(section("guard"))
	c.labels = readLabelRules(section("labels"))
	c.HAProxy = readHAProxy(section("haproxy"), c.Listen.Agent)
	c.Fleet = readFleet(section(fleetSection), l.noRuntimes == nil)
	c.readAskers(section, sections)
	c.readRuntimes(r, l)
	return r.problems
}

// readRuntimes reads all [[runtime]]. Without any there is one, the Docker engine that the environment names, but for
// runtime = [], with which there is none.
func (c *Config) readRuntimes(r *reader, l *loader) {
	runtimes := l.runtimes
	switch none := l.noRuntimes; {
	case none == nil && len(runtimes) == 0:
		c.Runtimes = []Runtime{readRuntime(r.root(nil))}
	case none != nil && len(runtimes) > 0:
		r.wrong(none, "runtime", "must not be empty: there is a runtime at %s", runtimes[0].at)
	case none != nil && c.Fleet == nil && !l.incomplete:
		r.wrong(none, "runtime", "must not be empty without [fleet]: healthd would have no containers")
	}
	for i, n := range runtimes {
		r.prefix = numbered("runtime", i+1)
		before := len(r.problems)
		rt := readRuntime(r.root(n))
		if n := countType(c.Runtimes, rt.Type); n > 0 {
			rt.Name += "-" + strconv.Itoa(n+1)
		}
		same := func(o Runtime) bool { return plainEndpoint(o.Endpoint) == plainEndpoint(rt.Endpoint) }
		if j := slices.IndexFunc(c.Runtimes, same); j >= 0 && len(r.problems) == before {
			r.wrong(cmp.Or(n.fields["endpoint"], n), "endpoint", "is also the endpoint of the runtime at %s", runtimes[j].at)
		}
		c.Runtimes = append(c.Runtimes, rt)
	}
}

// plainEndpoint returns an endpoint in the one way to write it: /var/run is a link to /run.
func plainEndpoint(endpoint string) string {
	socket, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return endpoint
	}
	socket = path.Clean(socket)
	if rest, ok := strings.CutPrefix(socket, "/var/run/"); ok {
		return "/run/" + rest
	}
	return socket
}

func countType(all []Runtime, of string) int {
	n := 0
	for _, r := range all {
		if r.Type == of {
			n++
		}
	}
	return n
}

func readRuntime(t *table) Runtime {
	rt := Runtime{
		Type:   t.choice("type", typeDocker, TypeContainerd),
		Relist: t.duration("relist", defaultRelist, durations(time.Second)),

		Exclusive: t.boolean("exclusive", true),
	}
	rt.Name = rt.Type
	if rt.Type == TypeContainerd {
		rt.Endpoint = t.text("endpoint", defaultContainerd, checkUnixEndpoint)
		rt.Namespaces = readNamespaces(t)
	} else {
		rt.Endpoint = t.text("endpoint", "", checkEndpoint)
		if n := t.take("namespaces"); n != nil {
			t.wrong(n, t.at("namespaces"), "only containerd has namespaces: set type = %s", quoteTOML(TypeContainerd))
		}
	}
	t.done()
	return rt
}

func readNamespaces(t *table) []string {
	if !t.has("namespaces") {
		return []string{defaultNamespace}
	}
	all := t.distinct("namespaces", "namespaces", maxNamespaces, checkNamespace, sameText)
	if n := t.n.fields["namespaces"]; n.kind == arrayKind && len(n.items) == 0 {
		t.wrong(n, t.at("namespaces"), "must have a namespace: without this key it is %s", quoteTOML(defaultNamespace))
	}
	return all
}

func readListen(t *table) Listen {
	l := Listen{
		HTTP:    t.text("http", defaultHTTP, checkListen),
		Agent:   t.text("agent", defaultAgent, checkListen),
		DNS:     t.text("dns", "", checkListen),
		Control: t.text("control", defaultControl, checkSocket),
		Hosts:   t.distinct("hosts", "hosts", maxHosts, checkListenHost, strings.ToLower),

		ControlGroup: t.text("control_group", "", checkUnixGroup),
	}
	t.done()
	t.apart("agent", l.Agent, "http", l.HTTP)
	t.apart("dns", l.DNS, "http", l.HTTP)
	t.apart("dns", l.DNS, "agent", l.Agent)
	return l
}

// apart reports two listeners that cannot both have their address, at a key that somebody has written.
func (t *table) apart(key, address, other, otherAddress string) {
	if !collide(address, otherAddress) {
		return
	}
	if !t.has(key) {
		key, other = other, key
	}
	t.wrong(t.n.fields[key], t.at(key), "must not overlap with listen.%s", other)
}

// ControlGroupPlace returns where listen.control_group is written, as "FILE:LINE". Which groups there are
// is not known here: who looks it up says with this what to mend.
func (c *Config) ControlGroupPlace() string { return c.controlGroup.String() }

// collide says whether two listeners cannot both have their address.
func collide(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA == portB && portA != "0" && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func readState(t *table) State {
	s := State{Dir: t.text("dir", defaultState, checkDir)}
	t.done()
	return s
}

func readDaemonSection(t *table) (d Daemon, observe bool) {
	d = Daemon{Shutdown: t.duration("shutdown", defaultShutdown, durations(time.Second))}
	observe = t.choice("mode", modeEnforce, modeObserve) == modeObserve
	t.done()
	return d, observe
}

func readGuard(t *table) core.Guard {
	g := core.Guard{
		MaxRestarts: t.integer("max_restarts", core.DefaultGuardRestarts, span[int]{0, maxRestarts}),
		Window:      t.duration("window", core.DefaultGuardWindow, durations(time.Second)),
		HostSuspect: t.boolean("host_suspect", true),
	}
	t.done()
	return g
}

func readLog(t *table) Log {
	l := Log{
		Level:  t.word("level", "info", "debug", "info", "warn", "error"),
		Format: t.choice("format", "auto", "console", "json", "journal"),
	}
	t.done()
	return l
}
