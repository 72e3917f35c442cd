package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pushDrain is longer than any test would wait for.
const pushDrain = 20 * time.Second

// startPushSetup starts all with one of the examples for HAProxy, in which the words given
// are replaced, and pushes to it. The replicas are one service, each at a port of its own.
func startPushSetup(t *testing.T, service, example string, replace ...string) *haproxySetup {
	t.Helper()
	b := &haproxySetup{replicaSet: replicaSet{t: t, e: engines.Engine(t)}, within: 50 * time.Millisecond}
	text, err := os.ReadFile(filepath.Join(haproxyExamples, "push.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 6; i++ {
		port := lowPort(t)
		b.replicas = append(b.replicas, replica{
			name: fmt.Sprintf("%s-%d", service, i), address: "127.0.0.1:" + port,
			labels: map[string]string{"e2e": service, "healthd.ports.http": port}, lingers: true,
		})
		// The agent example names its servers.
		replace = append(replace, fmt.Sprintf(`web-%d 127.0.0.1%[1]d:8080 agent-send "web/web-%[1]d`, i),
			fmt.Sprintf(`%s-%d 127.0.0.1:%s agent-send "%[1]s/%[1]s-%[2]d`, service, i, port))
	}
	agent := freeAddress(t)
	b.h = startHAProxy(t, example, append(replace, "agent-port 8647", "agent-port "+portOf(agent))...)
	specs := strings.NewReplacer(`name  = "web"`, fmt.Sprintf("name = %q", service), `{ app = "web" }`, fmt.Sprintf("{ e2e = %q }", service),
		"port = 8080", `port = "http"`, "port  = 8080", `port = "http"`, "/run/haproxy/admin.sock", b.h.socket(),
		`drain = "30s"`, fmt.Sprintf(`drain = "%v"`, pushDrain)).Replace(string(text))
	b.d = newDaemon(t, b.e.Endpoint, fastProbes(specs)+"[spec.ports]\nhttp = 8080\n")
	b.d.answerAgents(agent)
	b.startAll()
	b.waitForServers(upOrSo, b.addresses...)
	return b
}

// lowPort returns a port that no connection has for its own end, which would keep a
// replica from listening there when it is started later.
func lowPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("found no free port")
	return ""
}

func TestHAProxyPush(t *testing.T) {
	t.Parallel()
	b := startPushSetup(t, "push", "push.cfg")
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawnAtOnce(10) })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("stops", func(t *testing.T) { b.in(t).dockerStopWithdraws() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).stopTogether) })
	t.Run("metrics", func(t *testing.T) { b.in(t).pushMetricsExist() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithAgent() })
	// These restart replicas. Until HAProxy is 30 s old, each drain takes its full time.
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsDoNotWait() })
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
	text, err := os.ReadFile(filepath.Join(haproxyExamples, "push.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	_, slots, _ := strings.Cut(string(text), "HTTP/1.1 hdr Host www.example.com\n")
	b := startPushSetup(t, "pushdyn", "push.cfg", slots, "")
	if name, _, _ := b.h.server(b.addresses[0]); name != b.names[0] {
		t.Fatalf("the first server is called %q, want it to be called as its container", name)
	}
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).stopTogether) })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithAgent() })
	// It restarts a replica, see TestHAProxyPush.
	t.Run("maint", func(t *testing.T) { b.in(t).maintSurvivesRestarts() })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).newHAProxyIsFilled() })
	t.Run("errors", func(t *testing.T) { b.in(t).noHAProxyErrors() })
}

// For configured servers, healthd only sets whether they are ready. A new HAProxy has them.
func TestHAProxyPushStatic(t *testing.T) {
	t.Parallel()
	b := startPushSetup(t, "pushstat", "agent.cfg")
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawnAtOnce(3) })
	t.Run("haproxy-reloads", func(t *testing.T) { b.in(t).haproxyReloads(false) })
	t.Run("errors", func(t *testing.T) { b.in(t).noHAProxyErrors() })
}

// unreadyIsWithdrawnAtOnce takes many samples. Half of them must be within the promised
// time, stalls of the machine apart, and none may be far from it.
func (b *haproxySetup) unreadyIsWithdrawnAtOnce(samples int) {
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	var lates, stalls []time.Duration
	for n := range samples {
		i := n % len(b.names)
		l.resetReplicas()
		b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
		l.longestStall()
		verdict := b.makeUnready(i)
		b.waitForServers("DOWN", b.addresses[i])
		l.until(time.Now().Add(200 * time.Millisecond))
		stalls, lates = append(stalls, l.longestStall()), append(lates, b.requestCount(i).Last.Sub(verdict))
		b.set(i, "ready=200")
		b.waitForServers(upOrSo, b.addresses[i])
	}
	l.noFailures()
	b.t.Logf("the last request came so long after the verdict: %v, while the machine stalled for %v", lates, stalls)
	worst, late, stall := slices.Max(lates), median(lates), median(stalls)
	if most := b.within + slack + l.stalled(); worst > most {
		b.t.Errorf("a request came %v after the verdict, want at most %v", worst, most)
	}
	// healthd, HAProxy and the replica take their turns one after the other.
	if most := b.within + 3*stall + slack/20; late > most {
		b.t.Errorf("half of the times the last request came %v or more after the verdict, want at most %v", late, most)
	}
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// A stop waits for the requests under way, which take a second, and not longer.
func (b *haproxySetup) restartsDoNotWait() {
	const long = time.Second
	b.d.eventually(time.Minute, "have HAProxy grow old enough to be trusted", b.h.oldProcessEnded)
	l := startLoad(b.t, b.h.url, long)
	waited := 0
	for i, name := range b.names {
		l.resetReplicas()
		b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
		before, err := b.d.status(name)
		if err != nil {
			b.t.Fatal(err)
		}
		b.set(i, "status=500")
		b.d.until(30*time.Second, name, "restarted and ready", func(s status) bool { return s.RestartCount == before.RestartCount+1 && s.Ready })
		b.waitForServers(upOrSo, b.addresses[i])
		killing, signal := b.last(name, "Killing").Time, b.signalled(name)
		underway, answered := l.answeredBefore(b.addresses[i], killing, signal)
		waited += underway
		b.t.Logf("%s: stopped %v after the verdict, %v after the last of %d requests under way was answered", name, signal.Sub(killing), signal.Sub(answered), underway)
		const record = 2 * time.Second // that the flight record may take
		if most := long + record + slack + l.stalled(); signal.Sub(killing) > most {
			b.t.Errorf("%s was stopped %v after the verdict, want at most %v of a drain of %v", name, signal.Sub(killing), most, pushDrain)
		}
		if early := answered.Sub(signal); early > slack+l.stalled() {
			b.t.Errorf("%s was stopped %v before its last answer", name, early)
		}
	}
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.noFailures()
	if waited == 0 {
		b.t.Error("no request was under way when a replica was to be stopped")
	}
}

// oldProcessEnded returns nil when no process before this one can still be finishing requests.
func (h *haproxy) oldProcessEnded() error {
	answer, err := h.query("show info")
	if err != nil {
		return err
	}
	var seconds int
	_, uptime, _ := strings.Cut(answer, "Uptime_sec: ")
	if _, err := fmt.Sscan(uptime, &seconds); err != nil {
		return err
	}
	if age := time.Duration(seconds) * time.Second; age <= 30*time.Second {
		return fmt.Errorf("it is %v old", age)
	}
	return nil
}

// answeredBefore returns how many of the requests to a replica were under way at the
// verdict, and when the last that was sent before the stop signal was answered.
func (l *load) answeredBefore(address string, verdict, signal time.Time) (underway int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers[address] {
		if a.sent.Before(verdict) && a.came.After(verdict) {
			underway++
		}
		if a.sent.Before(signal) && a.came.After(last) {
			last = a.came
		}
	}
	return underway, last
}

// A restart of the last server that is up takes the service down, and the event says so.
func (b *haproxySetup) lastServerIsReported() {
	for _, e := range b.d.events("") {
		if e.Reason == "Killing" && strings.Contains(e.Message, "last one") {
			b.t.Errorf("of one of three it said %q", e.Message)
		}
	}
	before, err := b.d.status(b.names[0])
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range b.names[1:] {
		b.makeUnready(i + 1)
	}
	b.waitForServers("DOWN", b.addresses[1:]...)
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	l.until(time.Now().Add(2 * time.Second)) // it is looked, or asked, each second
	l.noFailures()
	b.set(0, "status=500")
	b.d.until(30*time.Second, b.names[0], "restarted and ready", func(s status) bool { return s.RestartCount > before.RestartCount && s.Ready })
	// A check names no backend: that would be text that a client has sent.
	const begin, pushed, checked = ", although it is the last server up in ", "backend web of HAProxy", "a backend of HAProxy, by its checks"
	if e := b.last(b.names[0], "Killing"); !strings.HasSuffix(e.Message, begin+pushed) && !strings.HasSuffix(e.Message, begin+checked) {
		b.t.Errorf("of the last one it says %q", e.Message)
	}
	for i := range b.names[1:] {
		b.set(i+1, "ready=200")
	}
	b.waitForServers(upOrSo, b.addresses...)
}

// pushMetricsExist looks at /metrics.
func (b *haproxySetup) pushMetricsExist() {
	_, text, err := b.d.get("/metrics")
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
	socket := fmt.Sprintf("{socket=%q}", b.h.socket())
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
	for _, e := range b.d.events("") {
		if e.Reason == "HAProxyError" && !strings.Contains(e.Message, "is in drain or maint and its container is gone") {
			b.t.Errorf("%v: %s", e.Time, e.Message)
		}
	}
}
