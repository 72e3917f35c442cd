package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// balanced is HAProxy before three replicas that healthd looks after, all of them
// configured as the examples are.
type balanced struct {
	t         *testing.T
	whole     *balanced // what a subtest is a part of
	e         *dockertest.Engine
	d         *daemon
	h         *haproxy
	names     []string
	addresses []string
	within    time.Duration // for HAProxy to withdraw what is not ready, by the example's numbers
}

// startBalanced starts all with one of the examples, agent or httpchk. The replicas are
// on the host's network, where an example's containers have published ports.
func startBalanced(t *testing.T, example string, within time.Duration) *balanced {
	t.Helper()
	b := &balanced{t: t, e: engines.Engine(t), within: within}
	text, err := os.ReadFile(filepath.Join(haproxyExamples, "healthd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(freeAddress(t))
	specs, words := "", []string{}
	for i := 1; i <= 3; i++ {
		name, host := fmt.Sprintf("%s-%d", example, i), fmt.Sprintf("127.0.0.1%d", i)
		b.names, b.addresses = append(b.names, name), append(b.addresses, host+":"+port)
		specs += strings.NewReplacer(`name  = "web"`, fmt.Sprintf("name = %q", name), `{ app = "web" }`, fmt.Sprintf("{ e2e = %q }", name),
			"port = 8080, path", fmt.Sprintf("host = %q, port = %s, path", host, port), "8080", port,
			"[spec.liveness]", "[spec.liveness]\nperiod = \"200ms\"\nfailure_threshold = 1\ntimeout = \"5s\"",
			"[spec.readiness]", "[spec.readiness]\ntimeout = \"5s\"", "failure_threshold = 2", "failure_threshold = 1",
			`"1s"`, `"200ms"`, `"2s"`, `"200ms"`, `drain   = "5s"`, `drain = "2s"`).Replace(string(text))
		words = append(words, fmt.Sprintf("web-%d", i), name, host+":8080", host+":"+port)
	}
	b.d = newDaemon(t, b.e.Endpoint, specs)
	agent := freeAddress(t)
	b.d.rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q", agent), 1)
	})
	b.d.start()
	b.d.eventually(30*time.Second, "be synced", b.d.synced)
	for i := range b.names {
		b.run(i)
	}
	for _, name := range b.names {
		b.d.until(30*time.Second, name, "ready", ready)
	}
	words = append(words, "port 8646", "port "+portOf(b.d.url), "agent-port 8647", "agent-port "+portOf(agent))
	b.h = startHAProxy(t, example+".cfg", words...)
	b.shows("UP", b.names...)
	return b
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// in is all of it for a subtest.
func (b *balanced) in(t *testing.T) *balanced {
	sub := *b
	sub.t, sub.whole, sub.d, sub.h = t, b, b.d.in(t), b.h.in(t)
	return &sub
}

// run starts a replica. Its container lives as long as the test.
func (b *balanced) run(i int) {
	b.t.Helper()
	b.e.Run(b.t, dockertest.RunOptions{Name: b.names[i], Network: "host", Labels: map[string]string{"e2e": b.names[i]}, Cmd: []string{
		"/bin/testserver", "-finish", "-http", b.addresses[i], "-grpc", "127.0.0.1:0", "-tcp", "127.0.0.1:0",
	}})
}

// again starts healthd anew, which outlives the subtest.
func (b *balanced) again() {
	b.t.Helper()
	b.whole.d.again()
	b.d = b.whole.d.in(b.t)
}

// shows waits until HAProxy shows the servers as wanted.
func (b *balanced) shows(want string, servers ...string) {
	b.t.Helper()
	b.d.eventually(30*time.Second, "have HAProxy see it", func() error { return b.h.shows(want, servers...) })
}

// set tells a replica how to answer from now on, such as "ready=503".
func (b *balanced) set(i int, what string) {
	b.t.Helper()
	response, err := http.Post("http://"+b.addresses[i]+"/set?"+what, "text/plain", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("%s answers %s", b.names[i], response.Status)
	}
}

// worked is what a replica itself has counted.
type worked struct {
	Count int
	Last  time.Time
}

func (b *balanced) worked(i int) (w worked) {
	b.t.Helper()
	response, err := http.Get("http://" + b.addresses[i] + "/worked")
	if err == nil {
		err = json.NewDecoder(response.Body).Decode(&w)
		response.Body.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// unready lets a replica fail readiness and returns when healthd's verdict came.
func (b *balanced) unready(i int) time.Time {
	b.t.Helper()
	b.set(i, "ready=503")
	b.d.until(30*time.Second, b.names[i], "not ready", func(s status) bool { return !s.Ready })
	for _, e := range slices.Backward(b.d.events(b.names[i])) {
		if e.Reason == "NotReady" {
			return e.Time
		}
	}
	b.t.Fatalf("%s has no event of it", b.names[i])
	return time.Time{}
}

// ready lets a replica be ready again and waits until HAProxy knows.
func (b *balanced) ready(i int) {
	b.t.Helper()
	b.set(i, "ready=200")
	b.d.until(30*time.Second, b.names[i], "ready", ready)
	took := b.d.eventually(30*time.Second, "have HAProxy see it", func() error { return b.h.shows("UP", b.names[i]) })
	b.t.Logf("HAProxy took it back %v after it was ready", took)
	if took > b.within+3*slack {
		b.t.Errorf("HAProxy took it back after %v, want at most %v and %v", took, b.within, 3*slack)
	}
}

func TestHAProxyAgent(t *testing.T) {
	t.Parallel()
	b := startBalanced(t, "agent", time.Second)
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsLoseNothing() })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorIsObeyed() })
	t.Run("weight", func(t *testing.T) { b.in(t).weightIsHealthds() })
	t.Run("containers", func(t *testing.T) { b.in(t).containersComeAndGo() })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).haproxyRestarts() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).agentDies() })
	t.Run("both-die", func(t *testing.T) { b.in(t).bothDieWithAgent() })
}

func TestHAProxyHTTPCheck(t *testing.T) {
	t.Parallel()
	b := startBalanced(t, "httpchk", 1250*time.Millisecond)
	t.Run("unready", func(t *testing.T) { b.in(t).unreadyIsWithdrawn() })
	t.Run("restarts", func(t *testing.T) { b.in(t).restartsLoseNothing() })
	t.Run("operator", func(t *testing.T) { b.in(t).operatorIsObeyed() })
	t.Run("containers", func(t *testing.T) { b.in(t).containersComeAndGo() })
	t.Run("haproxy-restarts", func(t *testing.T) { b.in(t).haproxyRestarts() })
	t.Run("healthd-dies", func(t *testing.T) { b.in(t).httpCheckDies() })
	t.Run("both-die", func(t *testing.T) { b.in(t).bothDieWithHTTPCheck() })
}

// slack is for a busy machine: HAProxy, healthd and the replica must have run. When the
// load saw it stall, that is allowed for, too.
const slack = time.Second

func (b *balanced) unreadyIsWithdrawn() {
	before := make([]int, len(b.names))
	for i := range b.names {
		before[i] = b.worked(i).Count
	}
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	verdict := b.unready(1)
	l.until(verdict.Add(b.within + slack + 500*time.Millisecond))
	l.unharmed()
	w := b.worked(1)
	late := w.Last.Sub(verdict)
	b.t.Logf("the last request came %v after the verdict", late)
	if most := b.within + slack + l.stalled; late > most {
		b.t.Errorf("a request came %v after the verdict, want at most %v", late, most)
	}
	for i, address := range b.addresses {
		if got := b.worked(i).Count - before[i]; got != l.by[address] {
			b.t.Errorf("%s got %d requests, and %d were answered", b.names[i], got, l.by[address])
		}
	}
	b.ready(1)
}

// Requests that take as long as the drain are under way when the stop signal comes.
func (b *balanced) restartsLoseNothing() {
	l := startLoad(b.t, b.h.url, 2*time.Second)
	for i, name := range b.names {
		l.fresh()
		b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
		b.set(i, "status=500")
		b.d.until(30*time.Second, name, "restarted and ready", func(s status) bool { return s.RestartCount == 1 && s.Ready })
		b.shows("UP", name)
	}
	l.fresh()
	b.d.eventually(20*time.Second, "let requests reach all", func() error { return l.reached(b.addresses...) })
	l.unharmed()
}

// What somebody sets by hand is not undone by what healthd says, nor by its restart.
func (b *balanced) operatorIsObeyed() {
	b.h.operate("set server web/" + b.names[0] + " state maint")
	b.h.operate("set server web/" + b.names[1] + " state drain")
	before := []int{b.worked(0).Count, b.worked(1).Count}
	held := func(when string) {
		b.t.Helper()
		if err := errors.Join(b.h.shows("MAINT", b.names[0]), b.h.shows("DRAIN", b.names[1])); err != nil {
			b.t.Errorf("%s: %v", when, err)
		}
	}
	held("at first")
	for i := range 3 { // the third is what HAProxy is seen to follow healthd by
		b.unready(i)
	}
	b.shows("DOWN", b.names[1], b.names[2])
	for i := range 3 {
		b.set(i, "ready=200")
	}
	b.shows("UP", b.names[2])
	b.shows("DRAIN", b.names[1])
	held("after changes of readiness")
	if err := b.whole.d.stop(30 * time.Second); err != nil {
		b.t.Fatal(err)
	}
	b.again()
	b.shows("UP", b.names[2])
	b.shows("DRAIN", b.names[1])
	held("after a restart of healthd")
	l := startLoad(b.t, b.h.url, 20*time.Millisecond)
	b.d.eventually(20*time.Second, "let requests reach the third", func() error { return l.reached(b.addresses[2]) })
	l.until(time.Now().Add(2 * b.within))
	l.unharmed()
	for i, count := range before {
		if got := b.worked(i).Count; got != count {
			b.t.Errorf("%s got %d requests", b.names[i], got-count)
		}
	}
	b.h.operate("set server web/" + b.names[0] + " state ready")
	b.h.operate("set server web/" + b.names[1] + " state ready")
	b.shows("UP", b.names...)
}

func (b *balanced) weightIsHealthds() {
	b.h.operate("set server web/" + b.names[0] + " weight 50%")
	b.d.eventually(10*time.Second, "undo it", func() error {
		weight, err := b.h.ask("get weight web/" + b.names[0])
		if err == nil && weight != "100 (initial 100)" {
			err = errors.New(weight)
		}
		return err
	})
}
