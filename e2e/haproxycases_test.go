package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// haproxySetup is HAProxy in front of replicas that healthd supervises, all configured as in
// the examples. Three replicas run, the others may be started.
type haproxySetup struct {
	replicaSet
	whole  *haproxySetup // what a subtest is a part of
	h      *haproxy
	agent  string        // the address of the agent listener
	within time.Duration // for HAProxy to withdraw what is not ready, by the example's numbers
}

// startHAProxySetup starts all with one of the examples, agent or httpchk, and servers for
// so many replicas. These are on the host's network, where an example's containers have
// published ports.
func startHAProxySetup(t *testing.T, example string, within time.Duration, servers int) *haproxySetup {
	t.Helper()
	b := &haproxySetup{replicaSet: replicaSet{t: t, e: engines.Engine(t)}, within: within}
	text, err := os.ReadFile(filepath.Join(haproxyExamples, "healthd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(freeAddress(t))
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
	b.d = newDaemon(t, b.e.Endpoint, strings.ReplaceAll(fastProbes(specs), `drain   = "5s"`, `drain = "2s"`))
	b.agent = freeAddress(t)
	b.d.answerAgents(b.agent)
	b.startAll()
	words = append(words, "port 8646", "port "+portOf(b.d.url), "agent-port 8647", "agent-port "+portOf(b.agent), "    server web-1 ", added+"    server "+b.names[0]+" ")
	b.h = startHAProxy(t, example+".cfg", words...)
	b.waitForServers("UP", b.addresses...)
	return b
}

// fastProbes makes probes more frequent than in the examples, with longer timeouts for a busy
// machine, and back-off short.
func fastProbes(specs string) string {
	return strings.NewReplacer("[spec.publish]", "[spec.backoff]\ninitial = \"1s\"\n\n[spec.publish]", "[spec.liveness]", "[spec.liveness]\nperiod = \"200ms\"\nfailure_threshold = 1\ntimeout = \"5s\"",
		"[spec.readiness]", "[spec.readiness]\ntimeout = \"5s\"", "failure_threshold = 2", "failure_threshold = 1",
		`"1s"`, `"200ms"`, `"2s"`, `"200ms"`).Replace(specs)
}

// answerAgents lets healthd, which does not run yet, answer agent checks.
func (d *daemon) answerAgents(address string) {
	d.rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q", address), 1)
	})
}

// in is all of it for a subtest.
func (b *haproxySetup) in(t *testing.T) *haproxySetup {
	sub := *b
	sub.t, sub.whole, sub.d, sub.h = t, b, b.d.in(t), b.h.in(t)
	return &sub
}

// restartHealthd starts healthd again, for longer than the subtest.
func (b *haproxySetup) restartHealthd() {
	b.t.Helper()
	b.whole.d.restart()
	b.d = b.whole.d.in(b.t)
}

// setServer runs "set server" for a replica's server, as an operator does.
func (b *haproxySetup) setServer(i int, what string) {
	b.t.Helper()
	name, _, err := b.h.server(b.addresses[i])
	if err != nil {
		b.t.Fatal(err)
	}
	b.h.runCommand("set server web/" + name + " " + what)
}

// waitForServers waits until HAProxy shows the servers, given by address, as wanted.
func (b *haproxySetup) waitForServers(want string, servers ...string) {
	b.t.Helper()
	b.d.eventually(30*time.Second, "have HAProxy see it", func() error { return b.h.checkServers(want, servers...) })
}

// makeReady lets a replica be ready again and waits until HAProxy knows.
func (b *haproxySetup) makeReady(i int) {
	b.t.Helper()
	b.set(i, "ready=200")
	b.d.until(30*time.Second, b.names[i], "ready", ready)
	took := b.d.eventually(30*time.Second, "have HAProxy see it", func() error { return b.h.checkServers("UP", b.addresses[i]) })
	b.t.Logf("HAProxy took it back %v after it was ready", took)
	if took > b.within+3*slack {
		b.t.Errorf("HAProxy took it back after %v, want at most %v and %v", took, b.within, 3*slack)
	}
}

func TestHAProxyAgent(t *testing.T) {
	t.Parallel()
	b := startHAProxySetup(t, "agent", time.Second, 6)
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
	b := startHAProxySetup(t, "httpchk", 1250*time.Millisecond, 6)
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

// slack is for a busy machine: HAProxy, healthd and the replica must have run. When the
// load saw it stall, that is allowed for, too.
const slack = time.Second

func (b *haproxySetup) unreadyIsWithdrawn() {
	before := make([]int, len(b.names))
	for i := range b.names {
		before[i] = b.requestCount(i).Count
	}
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	verdict := b.makeUnready(1)
	l.until(verdict.Add(b.within + slack + 500*time.Millisecond))
	l.noFailures()
	w := b.requestCount(1)
	late := w.Last.Sub(verdict)
	b.t.Logf("the last request came %v after the verdict", late)
	if most := b.within + slack + l.stalled(); late > most {
		b.t.Errorf("a request came %v after the verdict, want at most %v", late, most)
	}
	for i, address := range b.addresses {
		if got := b.requestCount(i).Count - before[i]; got != l.by[address] {
			b.t.Errorf("%s got %d requests, and %d were answered", b.names[i], got, l.by[address])
		}
	}
	b.makeReady(1)
}

// Requests that take as long as the drain are under way when the stop signal comes.
func (b *haproxySetup) restartsLoseNothing() {
	l := startLoad(b.t, b.h.url, 2*time.Second)
	for i, name := range b.names {
		l.resetReplicas()
		b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
		b.set(i, "status=500")
		b.d.until(30*time.Second, name, "restarted and ready", func(s status) bool { return s.RestartCount == 1 && s.Ready })
		b.waitForServers("UP", b.addresses[i])
	}
	l.resetReplicas()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.noFailures()
}

// What an operator sets in HAProxy is changed neither by healthd nor by its restart.
func (b *haproxySetup) operatorChangesStay() {
	b.setServer(0, "state maint")
	b.setServer(1, "state drain")
	before := []int{b.requestCount(0).Count, b.requestCount(1).Count}
	held := func(when string) {
		b.t.Helper()
		if err := errors.Join(b.h.checkServers("MAINT", b.addresses[0]), b.h.checkServers("DRAIN", b.addresses[1])); err != nil {
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
	if err := b.whole.d.stop(30 * time.Second); err != nil {
		b.t.Fatal(err)
	}
	b.restartHealthd()
	b.waitForServers("UP", b.addresses[2])
	b.waitForServers("DRAIN", b.addresses[1])
	held("after a restart of healthd")
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the third", func() error { return l.reached(b.addresses[2]) })
	l.until(time.Now().Add(2 * time.Second))
	l.noFailures()
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
	b.d.eventually(10*time.Second, "undo it", func() error {
		weight, err := b.h.query("get weight web/" + b.names[0]) // which is the server's name, too
		if err == nil && weight != "100 (initial 100)" {
			err = errors.New(weight)
		}
		return err
	})
}
