package haproxy

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A frontend may have the backend's name, and HAProxy finds it first.
func TestFrontendOfTheSameName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, strings.Replace(frontend(freePort(t)), "www", "web", 1)+dynamic)
	e := b.tell()
	e.is("c1", "A", "up")
	eventually(t, "it is known to be the last one up", func() error {
		if e.h.LastUp("id-c1") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	b.quiet(e)
	e.is("c1", "A", "stopping")
	eventually(t, "it is drained", func() error {
		if len(e.told()) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	e.unharmed()
}

// quiet fails the test when HAProxy is told something although nothing changes.
func (b *balancer) quiet(e *estate) {
	b.t.Helper()
	time.Sleep(eagerFor / 2)
	count := func() float64 { return testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())) }
	before := count()
	time.Sleep(lookEvery)
	if n := count() - before; n > 0 {
		b.t.Errorf("HAProxy was given %v commands although nothing changes", n)
	}
}

// Each healthd clears up behind itself alone: whose a server is shows in whom its agent
// check asks.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+strings.Replace(slots, "backend web", "backend other", 1))
	e, other := b.tell(), b.estate()
	other.agent = "127.0.0.1:10"
	other.begin(b.socket())
	e.is("c1", "A", "up")
	e.in("other", "c2", "127.0.0.1", b.port("B"), "up")
	other.is("x1", "C", "up")
	b.shows("web", "c1 A UP 100", sorry, "x1 C UP 100")
	b.shows("other", sorry, "web-1 B UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	b.quiet(e)
	b.quiet(other)
	e.is("c1", "A", "gone")
	b.shows("web", sorry, "x1 C UP 100")
	e.unharmed()
	other.unharmed()
}

// What somebody has begun by hand on the way to deleting a server is theirs.
func TestMaintWithoutAgentCheckStays(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	b.operate("set server web/c1 state maint")
	b.operate("disable agent web/c1")
	e.records(EventError, "somebody has disabled the agent check of server web/c1: it is left alone until that is enabled")
	e.is("c1", "A", "down")
	e.is("c1", "A", "up")
	b.shows("web", "c1 A MAINT 100", sorry)
	b.operate("enable agent web/c1")
	b.operate("set server web/c1 state ready")
	b.shows("web", "c1 A UP 100", sorry)
}

// A slot that somebody has set to drain is not used.
func TestDrainedSlotIsNotFilled(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	b.operate("set server web/web-1 state drain")
	e := b.tell()
	e.is("c1", "A", "up")
	b.shows("web", sorry, "web-1 0.0.0.0:0 DRAIN 100", "web-2 A UP 100", "web-3 0.0.0.0:0 MAINT 100")
	e.unharmed()
}

// A container that somebody has set aside is so under its new name, too.
func TestRenamedWhileSetAside(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	b.operate("set server web/c1 state maint")
	renamed := newView("web", "renamed", "127.0.0.1", b.port("A"), "up")
	renamed.Container.ID = "id-c1"
	e.mu.Lock()
	e.views["c1"] = renamed
	e.mu.Unlock()
	e.show()
	time.Sleep(2 * lookEvery)
	b.shows("web", "c1 A MAINT 100", sorry)
	b.operate("set server web/c1 state ready")
	b.shows("web", "renamed A UP 100", sorry)
	e.unharmed()
}

// A name that does not fit on HAProxy's command line is nobody else's trouble.
func TestLongName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is(strings.Repeat("x", 20_000), "A", "up")
	fits := strings.Repeat("y", maxName)
	e.is(fits, "B", "up")
	b.shows("web", sorry, fits+" B UP 100")
	e.records(EventError, "container "+strings.Repeat("x", 32)+"… cannot be a server: its name is longer than 255 bytes")
	if lost := e.recorded(EventLost); len(lost) > 0 {
		t.Error(lost)
	}
}

// Of two containers of one name, of two engines, the one that can do more is taken.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	stopped := newView("web", "c1", "", 81, "down")
	stopped.Container.ID = "a-lower-id"
	e.mu.Lock()
	e.views["of another engine"] = stopped
	e.mu.Unlock()
	e.is("c1", "A", "up")
	b.shows("web", "c1 A UP 100", sorry)
	e.records(EventError, "several containers are called c1, and there can be one server of a name")
}

// An agent check that says otherwise is told of, instead of being contradicted for ever.
func TestAgentCheckSaysOtherwise(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "down # OtherService\n")
			conn.Close()
		}
	}()
	b := startBalancer(t, fmt.Sprintf("backend web\n  server c1 127.0.0.1:81 agent-check agent-addr 127.0.0.1 agent-port %d agent-inter 100ms\n"+
		"  server c2 127.0.0.1:81 agent-check agent-addr 127.0.0.1 agent-port 9\n", ln.Addr().(*net.TCPAddr).Port))
	e := b.estate()
	e.agent = ln.Addr().String()
	e.begin(b.socket())
	e.is("c1", "A", "up")
	e.records(EventError, "server web/c1 does not stay as it is told")
	e.is("c2", "B", "up")
	e.records(EventError, "the agent-check of server web/c2 asks port 9 and not healthd's")
	time.Sleep(2 * lookEvery)
	if told := e.recorded(EventError); len(told) != 2 {
		t.Errorf("told %d times: %q", len(told), told)
	}
	if n := testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())); n > 2*maxRepeats {
		t.Errorf("HAProxy was given %v commands", n)
	}
}

// A slot that does not take its address gets no request.
func TestSlotOfAName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"  server-template web- 1 localhost:80 disabled init-addr none check agent-check agent-addr 127.0.0.1 agent-port 9\n")
	e := b.tell()
	e.is("c1", "A", "up")
	e.records(EventError, `"set server web/web-1 addr 127.0.0.1 port `)
	time.Sleep(2 * lookEvery)
	servers, err := b.servers("web")
	if err != nil || slices.ContainsFunc(servers, (*server).takes) {
		t.Errorf("it takes requests, %v", err)
	}
	if n := testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())); n > 40 {
		t.Errorf("HAProxy was given %v commands", n)
	}
}

// A weight of which there are no shares is left as it is.
func TestWeightOfNothing(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, "backend web\n  default-server agent-check agent-addr 127.0.0.1 agent-port 9\n  server c1 127.0.0.1:81 weight 0\n  server c2 127.0.0.1:82 weight 1\n")
	e := b.tell()
	for _, what := range []string{"up", "draining", "down", "up"} {
		e.is("c1", "A", what)
		e.is("c2", "B", what)
	}
	b.shows("web", "c1 127.0.0.1:81 no check 0", "c2 127.0.0.1:82 no check 1")
	b.quiet(e)
	e.unharmed()
}

// What is known of a backend that nobody wants any more is forgotten.
func TestBackendsAreForgotten(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.estate()
	end := e.begin(b.socket())
	for i := range 100 {
		e.in(fmt.Sprintf("none-%d", i), "c1", "127.0.0.1", 81, "up")
	}
	e.is("c1", "A", "up")
	e.is("c1", "A", "gone")
	b.shows("web", sorry)
	time.Sleep(2 * lookEvery)
	end()
	if books := e.h.links[0].books; len(books) > 0 {
		t.Errorf("%d backends are remembered", len(books))
	}
}

// Containers that have ended give up their slots to those that run, if need be.
func TestStoppedContainersGiveUpTheirSlots(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	e := b.tell()
	for i, name := range []string{"blue-1", "blue-2", "blue-3"} {
		e.is(name, string(rune('A'+i)), "up")
	}
	b.shows("web", sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100")
	b.operate("set server web/web-3 state maint")
	for _, name := range []string{"blue-1", "blue-2", "blue-3"} {
		e.in("web", name, "", 81, "down") // it has no network
	}
	e.is("green-1", "D", "up")
	e.is("green-2", "E", "up")
	b.shows("web", sorry, "web-1 D UP 100", "web-2 E UP 100", "web-3 C MAINT 100")
	e.unharmed()
	e.is("green-3", "F", "up")
	e.records(EventError, "there is no free server-template slot for container green-3")
}

// A backend that HAProxy has disabled is nobody else's trouble.
func TestDisabledBackend(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"backend other\n  disabled\n  server x1 127.0.0.9:81\n")
	e := b.tell()
	e.in("other", "c2", "127.0.0.1", b.port("B"), "up")
	e.is("c1", "A", "up")
	e.records(EventError, "show stat lacks servers of backend other: is it disabled?")
	b.shows("web", "c1 A UP 100", sorry)
	e.is("c1", "A", "down")
	b.shows("web", "c1 A DOWN (agent) 100", sorry)
	e.in("other", "c2", "127.0.0.1", b.port("B"), "stopping")
	time.Sleep(20 * soonAfter)
	if runs, lost := e.told(), e.recorded(EventLost); len(runs) > 0 || len(lost) > 0 {
		t.Errorf("drained %v, lost %v", runs, lost)
	}
}

// Nor is what somebody has disabled by hand undone where the weight tells nothing.
func TestChecksDisabledByHandStay(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is("c1", "A", "down")
	e.is("c2", "B", "up")
	b.shows("web", "c1 A DOWN (agent) 0", "c2 B UP 100", sorry)
	time.Sleep(2 * soonAfter) // it is known that it was told
	b.operate("disable agent web/c1")
	b.operate("disable health web/c2")
	b.operate("disable agent web/c2")
	b.operate("set server web/c2 state maint")
	e.records(EventError, "somebody has disabled the agent check of server web/c1")
	e.records(EventError, "somebody has disabled the agent check of server web/c2")
	time.Sleep(2 * lookEvery)
	servers, err := b.servers("web")
	for _, s := range servers {
		if s.name != "sorry" && s.agent&checkEnabled != 0 || s.name == "c2" && s.admin&adminMaint == 0 {
			t.Errorf("%s is %+v", s.name, s)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A container that gets the address of one which was set aside is not set aside.
func TestAddressOfOneSetAside(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.tell()
			e.is("web-1", "A", "up")
			eventually(t, "it is up", func() error { return b.has("web", 2) })
			b.operate("set server web/web-1 state maint")
			e.is("web-1", "A", "gone")
			e.records(EventError, "server web/web-1 was set aside by hand and its container is gone")
			e.is("other", "A", "up")
			if name == "dynamic" {
				b.shows("web", "other A UP 100", sorry, "web-1 A MAINT 100")
			} else {
				b.shows("web", sorry, "web-1 A MAINT 100", "web-2 A UP 100", "web-3 0.0.0.0:0 MAINT 100")
			}
		})
	}
}
