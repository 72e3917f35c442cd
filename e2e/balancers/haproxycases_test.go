package balancers

import (
	"healthd/e2e/ports"

	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
)

// haproxySetup is HAProxy in front of replicas that healthd supervises, all configured as in
// the examples. Three replicas run, the others may be started.
type haproxySetup struct {
	replicaSet
	whole *haproxySetup // what a subtest is a part of
	h     *harness.HAProxy
	agent string // the address of the agent listener
}

// startHAProxySetup starts all with one of the examples, agent or httpchk, and servers for
// so many replicas. These are on the host's network, where an example's containers have
// published ports.
func startHAProxySetup(t *testing.T, example string, servers int) *haproxySetup {
	t.Helper()
	b := &haproxySetup{replicaSet: replicaSet{t: t, e: harness.Docker.Engine(t)}}
	text, err := os.ReadFile(filepath.Join(harness.HAProxyExamples, "healthd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	port := harness.PortOf(ports.Address(t))
	specs, words, added := "", []string{}, ""
	for i := 1; i <= servers; i++ {
		// Several tests may run the same example at once.
		name, host := fmt.Sprintf("%s-%s-%d", example, port, i), fmt.Sprintf("127.0.0.1%d", i)
		b.replicas = append(b.replicas, replica{name: name, address: host + ":" + port, labels: map[string]string{"e2e": name}})
		specs += strings.NewReplacer(`name  = "web"`, fmt.Sprintf("name = %q", name), `{ app = "web" }`, fmt.Sprintf("{ e2e = %q }", name),
			"port = 8080, path", fmt.Sprintf("host = %q, port = %s, path", host, port), "8080", port).Replace(string(text))
		words = append(words, fmt.Sprintf("web-%d", i), name, host+":8080", host+":"+port)
		if i > 3 { // the examples have three
			added += fmt.Sprintf("    server %s %s:%s agent-send \"web/%s\\n\"\n", name, host, port, name)
		}
	}
	b.d = harness.NewDaemon(t, b.e.Endpoint, strings.ReplaceAll(fastProbes(specs), `drain   = "5s"`, `drain = "2s"`))
	b.agent = ports.Address(t)
	b.d.AnswerAgents(b.agent)
	b.startAll()
	words = append(words, "port 8646", "port "+harness.PortOf(b.d.URL), "agent-port 8647", "agent-port "+harness.PortOf(b.agent), "    server web-1 ", added+"    server "+b.names[0]+" ")
	b.h = harness.StartHAProxy(t, example+".cfg", words...)
	b.waitForServers("UP", b.addresses...)
	return b
}

// fastProbes makes probes more frequent than in the examples, with longer timeouts for a busy
// machine, and back-off short.
func fastProbes(specs string) string {
	return strings.NewReplacer("[spec.publish]", "[spec.backoff]\ninitial = \"1s\"\n\n[spec.publish]", "[spec.liveness]", "[spec.liveness]\nperiod = \"200ms\"\nfailure_threshold = 1\ntimeout = \"30s\"",
		"[spec.readiness]", "[spec.readiness]\ntimeout = \"30s\"", "failure_threshold = 2", "failure_threshold = 1",
		`"1s"`, `"200ms"`, `"2s"`, `"200ms"`).Replace(specs)
}

// in is all of it for a subtest.
func (b *haproxySetup) in(t *testing.T) *haproxySetup {
	sub := *b
	sub.t, sub.whole, sub.d, sub.h = t, b, b.d.In(t), b.h.In(t)
	return &sub
}

// restartHealthd starts healthd again, for longer than the subtest.
func (b *haproxySetup) restartHealthd() {
	b.t.Helper()
	b.whole.d.Restart()
	b.d = b.whole.d.In(b.t)
}

// setServer runs "set server" for a replica's server, as an operator does.
func (b *haproxySetup) setServer(i int, what string) {
	b.t.Helper()
	name, _, err := b.h.Server(b.addresses[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.h.RunCommand("set server web/" + name + " " + what)
}

// waitForServers waits until HAProxy shows the servers, given by address, as wanted.
func (b *haproxySetup) waitForServers(want string, servers ...string) {
	b.t.Helper()
	b.d.Eventually("have HAProxy see it", func() error { return b.h.CheckServers(want, servers...) })
}

// makeReady lets a replica be ready again and waits until HAProxy knows.
func (b *haproxySetup) makeReady(i int) {
	b.t.Helper()
	b.set(i, "ready=200")
	b.d.Until(b.names[i], "ready", harness.Ready)
	b.waitForServers(harness.UpOrSo, b.addresses[i])
}

func TestHAProxyAgent(t *testing.T) {
	t.Parallel()
	b := startHAProxySetup(t, "agent", 6)
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsLoseNothing() })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("weight", func(t *testing.T) { b.in(t).weightFollowsHealthd() })
	t.Run("containers", func(t *testing.T) { b.in(t).containersComeAndGo() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).drainThenStop) })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).haproxyRestarts() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithAgent() })
	t.Run("both-die", func(t *testing.T) { b.in(t).bothDieWithAgent() })
}

func TestHAProxyHTTPCheck(t *testing.T) {
	t.Parallel()
	b := startHAProxySetup(t, "httpchk", 6)
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsLoseNothing() })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorChangesStay() })
	t.Run("last-one", func(t *testing.T) { b.in(t).lastServerIsReported() })
	t.Run("containers", func(t *testing.T) { b.in(t).containersComeAndGo() })
	t.Run("scale", func(t *testing.T) { b.in(t).scales((*haproxySetup).drainThenStop) })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).haproxyRestarts() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).healthdDiesWithHTTPCheck() })
	t.Run("both-die", func(t *testing.T) { b.in(t).bothDieWithHTTPCheck() })
}

// unreadyIsWithdrawn lets each replica be unready for a while. No request is lost, none is repeated, and none comes once
// HAProxy knows.
func (b *haproxySetup) unreadyIsWithdrawn() {
	before := make([]int, len(b.names))
	for i := range b.names {
		before[i] = b.requestCount(i).Count
	}
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	for i := range b.names {
		l.ResetReplicas()
		b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
		b.makeUnready(i)
		b.waitForServers("DOWN", b.addresses[i])
		b.leftAlone(i, l)
		b.makeReady(i)
	}
	l.NoFailures()
	for i, address := range b.addresses {
		if got := b.requestCount(i).Count - before[i]; got != l.By[address] {
			b.t.Errorf("%s got %d requests, and %d were answered", b.names[i], got, l.By[address])
		}
	}
}

// Requests that take as long as the drain are under way when the stop signal comes.
func (b *haproxySetup) restartsLoseNothing() {
	l := harness.StartLoad(b.t, b.h.URL, 2*time.Second)
	for i, name := range b.names {
		l.ResetReplicas()
		b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
		b.set(i, "status=500")
		b.d.Until(name, "restarted and ready", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })
		b.waitForServers("UP", b.addresses[i])
	}
	l.ResetReplicas()
	b.d.Eventually("let requests reach all", func() error { return l.Reached(b.addresses...) })
	l.NoFailures()
}

// What an operator sets in HAProxy is changed neither by healthd nor by its restart.
func (b *haproxySetup) operatorChangesStay() {
	b.setServer(0, "state maint")
	b.setServer(1, "state drain")
	before := []int{b.requestCount(0).Count, b.requestCount(1).Count}
	held := func(when string) {
		b.t.Helper()
		if err := errors.Join(b.h.CheckServers("MAINT", b.addresses[0]), b.h.CheckServers("DRAIN", b.addresses[1])); err != nil {
			b.t.Errorf("%s: %v", when, err)
		}
	}
	held("at first")
	for i := range 3 { // the third is what HAProxy is seen to follow healthd by
		b.makeUnready(i)
	}
	b.waitForServers("DOWN", b.addresses[1:3]...)
	for i := range 3 {
		b.set(i, "ready=200")
	}
	b.waitForServers("UP", b.addresses[2])
	b.waitForServers("DRAIN", b.addresses[1])
	held("after changes of readiness")
	if err := b.whole.d.Stop(); err != nil {
		b.t.Fatal(err)
	}
	b.restartHealthd()
	b.waitForServers("UP", b.addresses[2])
	b.waitForServers("DRAIN", b.addresses[1])
	held("after a restart of healthd")
	l := harness.StartLoad(b.t, b.h.URL, 20*time.Millisecond)
	b.d.Eventually("let requests reach the third", func() error { return l.Reached(b.addresses[2]) })
	l.ResetReplicas()
	b.d.Eventually("let requests reach the third", func() error { return l.Reached(b.addresses[2]) })
	l.NoFailures()
	for i, count := range before {
		if got := b.requestCount(i).Count; got != count {
			b.t.Errorf("%s got %d requests", b.names[i], got-count)
		}
	}
	b.setServer(0, "state ready")
	b.setServer(1, "state ready")
	b.waitForServers("UP", b.addresses...)
}

func (b *haproxySetup) weightFollowsHealthd() {
	b.setServer(0, "weight 50%")
	b.d.Eventually("undo it", func() error {
		weight, err := b.h.Query("get weight web/" + b.names[0]) // which is the server's name, too
		if err == nil && weight != "100 (initial 100)" {
			err = errors.New(weight)
		}
		return err
	})
}

// HAProxy accepts the examples as they are.
func TestHAProxyAcceptsTheExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(harness.HAProxyExamples, "*.cfg"))
	if err != nil || len(files) != 3 {
		t.Fatalf("found the examples %v, %v", files, err)
	}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, filepath.Base(file)) // a HAProxy of another root sees no other files of the host
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(harness.FindHAProxy(t), "-c", "-f", copied).CombinedOutput()
		if err != nil || strings.Contains(string(out), "WARNING") {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
