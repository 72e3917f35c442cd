package balancers

import (
	"healthd/e2e/ports"

	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
)

// pushDrain is longer than any test waits: a restart that waits for the end of its drain never comes.
const pushDrain = 5 * patience.Limit

// startPushSetup starts all with one of the examples for HAProxy, in which the words given
// are replaced, and pushes to it. The replicas are one service, each at a port of its own.
func startPushSetup(t *testing.T, service, example string, replace ...string) *haproxySetup {
	t.Helper()
	b := &haproxySetup{replicaSet: replicaSet{t: t, e: harness.Docker.Engine(t)}}
	text, err := os.ReadFile(filepath.Join(harness.HAProxyExamples, "push.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 6; i++ {
		port := strconv.Itoa(ports.Free(t))
		b.replicas = append(b.replicas, replica{
			name: fmt.Sprintf("%s-%d", service, i), address: "127.0.0.1:" + port,
			labels: map[string]string{"e2e": service, "healthd.ports.http": port}, lingers: true,
		})
		// The agent example names its servers.
		replace = append(replace, fmt.Sprintf(`web-%d 127.0.0.1%[1]d:8080 agent-send "web/web-%[1]d`, i),
			fmt.Sprintf(`%s-%d 127.0.0.1:%s agent-send "%[1]s/%[1]s-%[2]d`, service, i, port))
	}
	agent := ports.Address(t)
	b.h = harness.StartHAProxy(t, example, append(replace, "agent-port 8647", "agent-port "+harness.PortOf(agent))...)
	specs := strings.NewReplacer(`name  = "web"`, fmt.Sprintf("name = %q", service), `{ app = "web" }`, fmt.Sprintf("{ e2e = %q }", service),
		"port = 8080", `port = "http"`, "port  = 8080", `port = "http"`, "/run/haproxy/admin.sock", b.h.Socket(),
		`drain = "30s"`, fmt.Sprintf(`drain = "%v"`, pushDrain)).Replace(string(text))
	b.d = harness.NewDaemon(t, b.e.Endpoint, fastProbes(specs)+"[spec.ports]\nhttp = 8080\n")
	b.d.AnswerAgents(agent)
	b.startAll()
	b.waitForServers(harness.UpOrSo, b.addresses...)
	return b
}

func TestHAProxyPush(t *testing.T) {
	t.Parallel()
	b := startPushSetup(t, "push", "push.cfg")
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("stops", func(t *testing.T) { b.in(t).dockerStopWithdraws() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).stopTogether) })
	t.Run("metrics", func(t *testing.T) { b.in(t).pushMetricsExist() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithAgent() })
	// These restart replicas, and wait until HAProxy is 30 s old: before that each drain takes its full time.
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsDoNotWait(false) })
	t.Run("last-one", func(t *testing.T) { b.in(t).lastServerIsReported() })
	t.Run("maint", func(t *testing.T) { b.in(t).maintSurvivesRestarts() })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).newHAProxyIsFilled() })
	t.Run("haproxy-reloads", func(t *testing.T) { b.in(t).haproxyReloads(true) })
	t.Run("both-die", func(t *testing.T) { b.in(t).bothDieWithPush() })
	t.Run("errors", func(t *testing.T) { b.in(t).noHAProxyErrors() })
}

// In a backend without slots, servers are added and deleted with their containers.
func TestHAProxyPushDynamic(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(harness.HAProxyExamples, "push.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	_, slots, _ := strings.Cut(string(text), "HTTP/1.1 hdr Host www.example.com\n")
	b := startPushSetup(t, "pushdyn", "push.cfg", slots, "")
	if name, _, _ := b.h.Server(b.addresses[0]); name != b.names[0] {
		t.Fatalf("the first server is called %q, want it to be called as its container", name)
	}
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).stopTogether) })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithAgent() })
	t.Run("maint", func(t *testing.T) { b.in(t).maintSurvivesRestarts() })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).newHAProxyIsFilled() })
	t.Run("errors", func(t *testing.T) { b.in(t).noHAProxyErrors() })
}

// For configured servers, healthd only sets whether they are ready. A new HAProxy has them.
func TestHAProxyPushStatic(t *testing.T) {
	t.Parallel()
	b := startPushSetup(t, "pushstat", "agent.cfg")
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("haproxy-reloads", func(t *testing.T) { b.in(t).haproxyReloads(false) })
	t.Run("errors", func(t *testing.T) { b.in(t).noHAProxyErrors() })
}

// Clients that stick to a server by a cookie go to another one while it drains: no request of theirs is lost, and none
// keeps the drain from ending.
func TestHAProxyPushSticky(t *testing.T) {
	t.Parallel()
	b := startPushSetup(t, "pushstick", "push.cfg", "balance roundrobin",
		"balance roundrobin\n    cookie SRV insert indirect nocache dynamic\n    dynamic-cookie-key key")
	b.restartsDoNotWait(true)
	b.noHAProxyErrors()
}

// A stop waits for the requests under way, which take a second, and not longer.
func (b *haproxySetup) restartsDoNotWait(sticky bool) {
	b.d.Eventually("have HAProxy grow old enough to be trusted", b.h.OldProcessEnded)
	l := harness.SendLoad(b.t, b.h.URL,
		harness.Traffic{Method: http.MethodPost, Rate: 200, Long: time.Second, Sticky: sticky})
	waited := 0
	for i, name := range b.names {
		l.ResetReplicas()
		b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
		before, err := b.d.Status(name)
		if err != nil {
			b.t.Fatal(err)
		}
		b.set(i, "status=500")
		b.d.Until(name, "restarted and ready", func(s harness.Status) bool { return s.RestartCount == before.RestartCount+1 && s.Ready })
		b.waitForServers(harness.UpOrSo, b.addresses[i])
		waited += underWay(l, b.addresses[i], b.last(name, "Killing").Time)
		if n := b.unanswered(name); n != "0" {
			b.t.Errorf("%s was stopped while it had to answer %s requests", name, n)
		}
	}
	l.ResetReplicas()
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	l.NoFailures()
	if waited == 0 {
		b.t.Error("no request was under way when a replica was to be stopped")
	}
	if l.Sent < 1000 {
		b.t.Errorf("only %d requests were sent", l.Sent)
	}
}

// underWay returns how many of the requests to a replica were under way at a moment.
func underWay(l *harness.Load, address string, at time.Time) (n int) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, a := range l.Answers[address] {
		if a.Sent.Before(at) && a.Came.After(at) {
			n++
		}
	}
	return n
}

// A restart of the last server that is up takes the service down, and the event says so.
func (b *haproxySetup) lastServerIsReported() {
	for _, e := range b.d.Events("") {
		if e.Reason == "Killing" && strings.Contains(e.Message, "last one") {
			b.t.Errorf("of one of three it said %q", e.Message)
		}
	}
	before, err := b.d.Status(b.names[0])
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range b.names[1:] {
		b.makeUnready(i + 1)
	}
	b.waitForServers("DOWN", b.addresses[1:]...)
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	l.Until(time.Now().Add(2 * time.Second)) // it is looked, or asked, each second
	l.NoFailures()
	b.set(0, "status=500")
	b.d.Until(b.names[0], "restarted and ready", func(s harness.Status) bool { return s.RestartCount > before.RestartCount && s.Ready })
	// A check names no backend: that would be text that a client has sent.
	const begin, pushed, checked = ", although it is the last server up in ", "backend web of HAProxy", "a backend of HAProxy, by its checks"
	if e := b.last(b.names[0], "Killing"); !strings.HasSuffix(e.Message, begin+pushed) && !strings.HasSuffix(e.Message, begin+checked) {
		b.t.Errorf("of the last one it says %q", e.Message)
	}
	for i := range b.names[1:] {
		b.set(i+1, "ready=200")
	}
	b.waitForServers(harness.UpOrSo, b.addresses...)
}

// pushMetricsExist looks at /metrics.
func (b *haproxySetup) pushMetricsExist() {
	_, text, err := b.d.Get("/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "healthd_haproxy_"); ok {
			name, value, _ := strings.Cut(strings.TrimSpace(name), " ")
			got[name] = value
		}
	}
	b.t.Logf("%v", got)
	socket := fmt.Sprintf("{socket=%q}", b.h.Socket())
	for name, want := range map[string]string{"up": "1", "errors_total": "0", "problems": "0"} {
		if value := got[name+socket]; value != want {
			b.t.Errorf("healthd_haproxy_%s%s is %q, want %s", name, socket, value, want)
		}
	}
	for _, name := range []string{"commands_total" + socket, "push_seconds_count"} {
		if n, err := strconv.Atoi(got[name]); err != nil || n == 0 {
			b.t.Errorf("healthd_haproxy_%s is %q", name, got[name])
		}
	}
}

// HAProxy refused no command and gave no invalid answer. Another HAProxyError is expected:
// a server in drain or maint stays when its container is gone.
func (b *haproxySetup) noHAProxyErrors() {
	for _, e := range b.d.Events("") {
		if e.Reason == "HAProxyError" && !strings.Contains(e.Message, "is in drain or maint and its container is gone") {
			b.t.Errorf("%v: %s", e.Time, e.Message)
		}
	}
}
