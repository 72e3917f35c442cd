package engines

import (
	"healthd/e2e/ports"

	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest"
	"healthd/supervisor/fleet/etcdtest"
)

const outletsSpec = `
[haproxy]
sockets = ["SOCKET"]
[[publish_file]]
template = "nginx"
path     = "DIR/upstreams.conf"
check    = ["NGINX", "-e", "stderr", "-p", "DIR", "-c", "DIR/nginx.conf", "-t"]
reload   = ["NGINX", "-e", "stderr", "-p", "DIR", "-c", "DIR/nginx.conf", "-s", "reload"]
[[notify]]
name    = "oncall"
command = ["sh", "-c", "cat >> DIR/messages"]
reasons = ["GaveUp"]
group_wait = "1s"
[[spec]]
name      = "told"
match     = { e2e = "told" }
readiness = { http_get = { port = 8080, path = "/ready" }, period = "200ms", failure_threshold = 1 }
publish   = { service = "told", port = 8080, haproxy = { backend = "push" } }
[[spec]]
name    = "quits"
match   = { e2e = "quits" }
give_up = { restarts = 1, within = "1h" }
`

// Each way by which HAProxy learns who is ready has a backend of its own.
const outletsHAProxy = `
global
    stats socket /run/haproxy/admin.sock mode 660 level admin
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
    timeout check 30s
frontend www
    bind 127.0.0.1:8000
    http-request set-path /healthz
    use_backend agent if { hdr(host) agent }
    use_backend httpchk if { hdr(host) httpchk }
    default_backend push
backend agent
    server told ADDRESS:8080 check inter 200ms agent-check agent-addr 127.0.0.1 agent-port AGENT agent-inter 200ms agent-send "told/told\n"
backend httpchk
    option httpchk
    http-check send meth GET uri /v1/ready/told/told ver HTTP/1.1 hdr Host healthd
    server told ADDRESS:8080 check addr 127.0.0.1 port HEALTHD inter 200ms fall 1 rise 1
backend push
    server-template told- 2 0.0.0.0:0 disabled
`

const outletsNginx = `
daemon off;
pid DIR/nginx.pid;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    include DIR/upstreams.conf;
    server {
        listen FRONT;
        location / { proxy_pass http://told/healthz; }
    }
}
`

// outlets is a healthd with all that leaves it, and who hears it.
type outlets struct {
	t                        *testing.T
	d                        *harness.Daemon
	dir, agent, named, front string
	haproxy                  *harness.HAProxy
	here                     func(string) string
}

// Whether a container is ready is told alike by every outlet, and to every balancer.
func everyOutletFollowsReadiness(t *testing.T, e harness.Engine) {
	o := &outlets{t: t, agent: ports.Address(t), named: ports.Address(t), front: ports.Address(t), haproxy: harness.NewHAProxy(t)}
	dir, err := os.MkdirTemp("", "hd-out") // t.TempDir is not for a process that goes on until the cleanup
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o.dir = dir
	words := []string{"DIR", dir, "FRONT", o.front, "SOCKET", o.haproxy.Socket(), "NGINX", harness.FindProgram(t, "nginx"), "AGENT", harness.PortOf(o.agent)}
	o.here = strings.NewReplacer(words...).Replace
	o.d = harness.NewDaemonOn(t, e, o.here(outletsSpec))
	o.d.AnswerAgents(o.agent)
	o.d.Rewrite(func(text string) string {
		return strings.Replace(text, "[listen]\n", fmt.Sprintf("[listen]\ndns = %q\n", o.named), 1)
	})
	id := e.Run(t, dockertest.RunOptions{Name: "told", Labels: map[string]string{"e2e": "told"}})
	o.startNginx()
	harness.StartedDaemon(o.d)
	address := o.d.Until("told", "ready", harness.Ready).Address
	o.haproxy.StartWith(o.here(outletsHAProxy), "ADDRESS", address, "HEALTHD", harness.PortOf(o.d.URL))
	for _, ready := range []bool{true, false, true} {
		harness.Set(t, e, id, map[bool]string{true: "ready=200", false: "ready=503"}[ready])
		o.d.Eventually(fmt.Sprintf("tell by every outlet that it is ready: %v", ready), func() error { return o.agree(ready, address) })
	}
	if page := o.page(); !strings.Contains(page, "<title>") || !strings.Contains(page, "<script") {
		t.Errorf("the page is %.200s", page)
	}
	e.Run(t, dockertest.RunOptions{Name: "quits", Labels: map[string]string{"e2e": "quits"}, Cmd: []string{"false"}})
	o.d.Eventually("notify that it has given up", func() error { return o.notified("GaveUp", "quits") })
}

// startNginx starts it once there is a file to include. It ends with the test.
func (o *outlets) startNginx() {
	o.t.Helper()
	conf := filepath.Join(o.dir, "nginx.conf")
	err := errors.Join(os.WriteFile(conf, []byte(o.here(outletsNginx)), 0o600), os.WriteFile(filepath.Join(o.dir, "upstreams.conf"), []byte("upstream told { server 127.0.0.1:9 down; }\n"), 0o600))
	if err != nil {
		o.t.Fatal(err)
	}
	nginx := enginetest.NewProcess("nginx", filepath.Join(o.dir, "log"), harness.FindProgram(o.t, "nginx"), "-e", "stderr", "-p", o.dir, "-c", conf)
	if err := nginx.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		if err := nginx.Stop(syscall.SIGTERM, patience.Limit); err != nil {
			o.t.Error(err)
		}
	})
}

// agree returns an error that names who says otherwise.
func (o *outlets) agree(ready bool, address string) error {
	said := map[string]bool{}
	for _, backend := range []string{"agent", "httpchk", "push"} {
		said["HAProxy by "+backend] = o.passes(o.haproxy.URL, backend)
	}
	said["nginx"] = o.passes("http://"+o.front, "www")
	answer, err := harness.AskAgent(o.agent, "told/told")
	said["the agent listener"] = err == nil && strings.HasPrefix(answer, "up ")
	found, _, err := (&dns.Client{Net: "tcp", Timeout: patience.Limit}).Exchange(new(dns.Msg).SetQuestion("told.healthd.", dns.TypeA), o.named)
	said["DNS"] = err == nil && len(found.Answer) == 1
	for _, path := range []string{"/v1/ready/told", "/v1/services/told/ready"} {
		code, _, err := o.d.Get(path)
		said[path] = err == nil && code == http.StatusOK
	}
	_, discovered, _ := o.d.Get("/v1/discovery/traefik")
	said["Traefik's discovery"] = strings.Contains(discovered, address)
	_, metrics, _ := o.d.Get("/metrics")
	said["metrics"] = strings.Contains(metrics, "\nhealthd_container_ready{container=\"told\"") && readyMetric(metrics) == "1"
	for _, who := range slices.Sorted(maps.Keys(said)) {
		if said[who] != ready {
			return fmt.Errorf("%s says ready: %v", who, said[who])
		}
	}
	return nil
}

// readyMetric is the value of the container's.
func readyMetric(metrics string) string {
	_, rest, _ := strings.Cut(metrics, "\nhealthd_container_ready{container=\"told\"")
	line, _, _ := strings.Cut(rest, "\n")
	return line[strings.LastIndexByte(line, ' ')+1:]
}

// passes says whether a balancer answers a request with what the container says.
func (o *outlets) passes(url, host string) bool {
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// page is what a browser gets.
func (o *outlets) page() string {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.d.URL+"/", nil)
	if err != nil {
		o.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		o.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}

// notified returns nil when the receiver has a message of that.
func (o *outlets) notified(reason, container string) error {
	text, err := os.ReadFile(filepath.Join(o.dir, "messages"))
	if err != nil {
		return err
	}
	var message struct {
		Entries []struct{ Reason, Container string }
	}
	for line := json.NewDecoder(strings.NewReader(string(text))); ; {
		if err := line.Decode(&message); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		for _, entry := range message.Entries {
			if entry.Reason == reason && entry.Container == container {
				return nil
			}
		}
	}
}

const fleetOfTwoSpec = `
[fleet]
endpoints = [%q]
host      = "h1"
advertise = "127.0.0.1"
ttl       = "30s"
[[spec]]
name      = "far"
match     = { e2e = "far" }
readiness = { http_get = { port = 8080, path = "/ready" }, period = "200ms", failure_threshold = 1 }
publish   = { service = "far", port = 8080, address = "container" }
`

// Two hosts with one etcd: the second, without an engine, tells who is ready on the first, and holds what is there.
func fleetOfTwo(t *testing.T, e harness.Engine) {
	etcd := etcdtest.New(t, etcdtest.Options{Members: 1})
	first := harness.StartDaemonOn(t, e, fmt.Sprintf(fleetOfTwoSpec, etcd.Endpoints[0]))
	second := harness.NewDaemonWith(t, "runtime = []\n", fmt.Sprintf("[fleet]\nendpoints = [%q]\nhost = \"h2\"\nadvertise = \"127.0.0.1\"\nttl = \"30s\"\n", etcd.Endpoints[0]))
	agent := ports.Address(t)
	second.AnswerAgents(agent)
	harness.StartedDaemon(second)
	id := e.Run(t, dockertest.RunOptions{Name: "far", Labels: map[string]string{"e2e": "far"}})
	for _, ready := range []bool{true, false, true} {
		harness.Set(t, e, id, map[bool]string{true: "ready=200", false: "ready=503"}[ready])
		second.Eventually(fmt.Sprintf("tell that a container of another host is ready: %v", ready), func() error {
			answer, err := harness.AskAgent(agent, "far/h1:far")
			code, body, getErr := second.Get("/v1/services/far/ready")
			if err = errors.Join(err, getErr); err == nil && (strings.HasPrefix(answer, "up ") != ready || (code == http.StatusOK) != ready) {
				err = fmt.Errorf("%s; %d: %s", answer, code, body)
			}
			return err
		})
	}
	for _, command := range []string{"hold", "resume"} {
		if out, code := second.Run(command, "--fleet", "far"); code != 0 {
			t.Fatalf("%s: %d: %s", command, code, out)
		}
		first.Until("far", "held by the other host: "+command, func(s harness.Status) bool { return s.Held == (command == "hold") })
	}
	e.Remove(t, id)
	second.Eventually("forget it", func() error {
		code, body, err := second.Get("/v1/services/far")
		if err == nil && strings.Contains(body, `"h1:far"`) {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
}
