package fleet

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const (
	fleetTTL   = 15 * time.Second // of the lease of each host: longer than a busy machine keeps a process from running
	webPerHost = 3
	firstPort  = 8081 // of the replicas on a host

	balancerNumber = 20 // the end of its address
)

// fleet is three hosts with three replicas each, and a fourth with HAProxy and no engine, on a network with etcd.
type fleet struct {
	t        *testing.T
	net      *segment
	etcd     *etcd
	hosts    []*fleetHost
	balancer *fleetHost
	haproxy  *harness.HAProxy
	file     string // that the balancer's healthd writes for nginx
}

// fleetHost is a host of the fleet. Its network is a namespace.
type fleetHost struct {
	*harness.Daemon
	name, ns, address string
	engine            *dockertest.Engine // nil: none
	whole             *harness.Daemon    // that of the whole test
}

// fleetSpec is what the hosts with replicas are told. All replicas are one service.
const fleetSpec = `
[[spec]]
name     = "web"
match    = { e2e = "fleet" }
startup   = { http_get = { port = "http", path = "/healthz" }, period = "200ms", failure_threshold = 100 }
liveness  = { http_get = { port = "http", path = "/healthz" }, period = "500ms", timeout = "30s", failure_threshold = 2 }
readiness = { http_get = { port = "http", path = "/ready" }, period = "200ms", timeout = "30s", failure_threshold = 1 }
group     = { scope = "fleet", max_unavailable = 2 }
publish   = { port = "http", drain = "20s", haproxy = { backend = "web" } }
[spec.ports]
http = 8080
`

// startFleet starts all, and waits until HAProxy sends requests to all replicas.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, net: newSegment(t)}
	f.etcd = startEtcd(t, f.net)
	f.startBalancer()
	for i := range 3 {
		f.hosts = append(f.hosts, f.startHost(i))
	}
	for _, h := range f.hosts {
		for i := range webPerHost {
			h.Until(webName(i), "ready", harness.Ready)
		}
	}
	f.eventually("have HAProxy send requests to all replicas", func() error { return f.up(f.replicas(f.hosts...)...) })
	return f
}

// dns is where the balancer's healthd answers.
func (f *fleet) dns() string { return f.net.address(balancerNumber) + ":8653" }

func webName(i int) string { return fmt.Sprintf("web-%d", i+1) }

// newHost writes the configuration of a host. It joins the fleet when its daemon starts.
func (f *fleet) newHost(name string, number int, runtimes, specs string) *fleetHost {
	f.t.Helper()
	h := &fleetHost{name: name, ns: f.net.netns(name, number), address: f.net.address(number)}
	h.Daemon = harness.NewDaemonWith(f.t, runtimes, fmt.Sprintf("[fleet]\nendpoints = %q\nhost = %q\nadvertise = %q\nttl = \"%v\"\n%s",
		f.etcd.Endpoints, name, h.address, fleetTTL, specs))
	h.Rewrite(func(text string) string {
		return strings.NewReplacer(strings.TrimPrefix(h.URL, "http://"), h.address+":8646", `agent = ""`, fmt.Sprintf("agent = %q", h.address+":8647"),
			`" "http`, `", "http`).Replace(text)
	})
	h.URL, h.Under, h.Runtime = "http://"+h.address+":8646", inNetns(h.ns), "docker"
	return h
}

// startHost starts an engine, the replicas and healthd. The first host's replicas have published ports, the others' are in their host's network.
func (f *fleet) startHost(i int) *fleetHost {
	f.t.Helper()
	name, number := fmt.Sprintf("h%d", i+1), 11+i
	h := f.newHost(name, number, "", fleetSpec)
	h.engine = dockertest.StartIn(f.t, h.ns)
	h.Rewrite(func(text string) string {
		return fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = %q\n", h.engine.Endpoint) + text
	})
	for n := range webPerHost {
		port := fmt.Sprint(firstPort + n)
		o := dockertest.RunOptions{
			Name: webName(n), Cmd: []string{"/bin/testserver", "-finish"},
			Labels: map[string]string{"e2e": "fleet", "com.docker.compose.project": "shop", "com.docker.compose.service": "web"},
		}
		if i == 0 {
			o.Publish = port + ":8080"
		} else {
			at := ":" + port // healthd asks at 127.0.0.1, HAProxy at the address of the host
			o.Network, o.Cmd = "host", append(o.Cmd, "-http", at, "-grpc", "127.0.0.1:0", "-tcp", "127.0.0.1:0")
			o.Labels["healthd.ports.http"] = port
		}
		h.engine.Run(f.t, o)
	}
	h.Start()
	return h
}

// startBalancer starts HAProxy and the healthd beside it, which has no engine.
func (f *fleet) startBalancer() {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.HAProxyExamples, "push.cfg"))
	if err != nil {
		f.t.Fatal(err)
	}
	_, slots, _ := strings.Cut(string(text), "HTTP/1.1 hdr Host www.example.com\n")
	f.haproxy = harness.StartHAProxy(f.t, "push.cfg", slots, "", "agent-addr 127.0.0.1", "agent-addr "+f.net.address(balancerNumber),
		"uri /healthz", "uri /echo") // what HAProxy itself sees of a failed liveness probe is not what is tested
	f.file = filepath.Join(f.haproxy.Dir, "upstreams.conf")
	f.balancer = f.newHost("lb", balancerNumber, "runtime = []\n", fmt.Sprintf("[haproxy]\nsockets = [%q]\n[[publish_file]]\ntemplate = \"nginx\"\npath = %q\nmin_interval = \"1s\"\n", f.haproxy.Socket(), f.file))
	f.balancer.Rewrite(func(text string) string {
		return strings.Replace(text, "[listen]\n", fmt.Sprintf("[listen]\ndns = %q\n", f.dns()), 1)
	})
	f.balancer.Start()
	f.eventually("be synced", f.balancer.Synced)
}

func (f *fleet) eventually(what string, try func() error) {
	f.t.Helper()
	f.balancer.In(f.t).Eventually(what, try)
}

// in is the fleet for a subtest, which fails for it.
func (f *fleet) in(t *testing.T) *fleet {
	sub := *f
	sub.t, sub.haproxy = t, f.haproxy.In(t)
	sub.balancer, sub.hosts = f.balancer.inTest(t), nil
	for _, h := range f.hosts {
		sub.hosts = append(sub.hosts, h.inTest(t))
	}
	return &sub
}

func (h *fleetHost) inTest(t *testing.T) *fleetHost {
	sub := *h
	sub.Daemon, sub.whole = h.Daemon.In(t), h.Daemon
	return &sub
}

// replicas are the addresses of some hosts' replicas.
func (f *fleet) replicas(hosts ...*fleetHost) (all []string) {
	for _, h := range hosts {
		for i := range webPerHost {
			all = append(all, h.replica(i))
		}
	}
	return all
}

func (h *fleetHost) replica(i int) string { return fmt.Sprintf("%s:%d", h.address, firstPort+i) }

// up returns nil when HAProxy sends requests to these addresses and to no others.
func (f *fleet) up(addresses ...string) error {
	servers, err := f.haproxy.Rows()
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for _, a := range addresses {
		want[a] = true
	}
	for _, s := range servers {
		switch is := strings.HasPrefix(s["status"], "UP") && s["weight"] != "0"; {
		case is && !want[s["addr"]]:
			return fmt.Errorf("%s at %s is %s", s["svname"], s["addr"], s["status"])
		case is:
			delete(want, s["addr"])
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("HAProxy sends no requests to %v", slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// set tells a replica how to answer from now on, such as "ready=503".
func (h *fleetHost) set(i int, what string) {
	h.T.Helper()
	response, err := http.Post("http://"+h.replica(i)+"/set?"+what, "text/plain", nil)
	if err != nil {
		h.T.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		h.T.Fatalf("%s of %s answers %s", webName(i), h.name, response.Status)
	}
}

// restarts is how often healthd has restarted the replicas of all hosts.
func (f *fleet) restarts() (n int) {
	f.t.Helper()
	err := f.each(func(h *fleetHost, name string) error {
		s, err := h.Status(name)
		n += s.RestartCount
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}
