package configs

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"healthd/supervisor/core"
)

const (
	defaultHTTP    = "127.0.0.1:8646"
	defaultAgent   = "127.0.0.1:8647"
	defaultControl = "/run/healthd/control.sock"
	defaultState   = "/var/lib/healthd"
	defaultRelist  = time.Minute

	maxRestarts = 1_000_000 // only catches slips
)

// readDaemon reads the settings of the daemon itself. Without a [[runtime]]
// there is one, the Docker engine that the environment names.
func readDaemon(c *Config, runtimes []*node, sections map[string]*node) Problems {
	r := &reader{}
	section := func(key string) *table { return &table{reader: r, n: sections[key], path: key} }
	c.Listen = readListen(section("listen"))
	c.State = readState(section("state"))
	c.Log = readLog(section("log"))
	c.Guard = readGuard(section("guard"))
	c.HAProxy = readHAProxy(section("haproxy"), c.Listen.Agent)
	if len(runtimes) == 0 {
		c.Runtimes = []Runtime{readRuntime(r.root(nil))}
	}
	for i, n := range runtimes {
		r.prefix = "runtime[#" + strconv.Itoa(i+1) + "]."
		before := len(r.problems)
		rt := readRuntime(r.root(n))
		if i > 0 {
			rt.Name += "-" + strconv.Itoa(i+1)
		}
		same := func(o Runtime) bool { return o.Endpoint == rt.Endpoint }
		if j := slices.IndexFunc(c.Runtimes, same); j >= 0 && len(r.problems) == before {
			r.wrong(cmp.Or(n.fields["endpoint"], n), "endpoint", "is also the endpoint of the runtime at %s", runtimes[j].at)
		}
		c.Runtimes = append(c.Runtimes, rt)
	}
	return r.problems
}

func readRuntime(t *table) Runtime {
	rt := Runtime{
		Type:     t.choice("type", "docker"),
		Endpoint: t.text("endpoint", "", checkEndpoint),
		Relist:   t.duration("relist", defaultRelist, durations(time.Second)),
	}
	rt.Name = rt.Type
	t.done()
	return rt
}

func readListen(t *table) Listen {
	l := Listen{
		HTTP:    t.text("http", defaultHTTP, checkListen),
		Agent:   t.text("agent", defaultAgent, checkListen),
		Control: t.text("control", defaultControl, checkSocket),
	}
	t.done()
	if collide(l.HTTP, l.Agent) {
		key, other := "agent", "http"
		if !t.has(key) {
			key, other = other, key
		}
		t.wrong(t.n.fields[key], t.at(key), "must not overlap with listen.%s", other)
	}
	return l
}

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

func readGuard(t *table) core.Guard {
	g := core.Guard{
		MaxRestarts: t.integer("max_restarts", core.DefaultGuardRestarts, span[int]{0, maxRestarts}),
		Window:      t.duration("window", core.DefaultGuardWindow, durations(time.Second)),
	}
	t.done()
	return g
}

func readLog(t *table) Log {
	l := Log{
		Level:  t.text("level", "info", oneOf("debug", "info", "warn", "error")),
		Format: t.choice("format", "auto", "console", "json", "journal"),
	}
	t.done()
	return l
}
