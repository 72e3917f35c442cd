package haproxy

import (
	"healthd/e2e/ports"

	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/e2e/patience"
)

// A frontend may have the backend's name, and HAProxy finds the frontend first.
func TestFrontendOfTheSameName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, strings.Replace(frontend(ports.Free(t)), "www", "web", 1)+dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	patience.Until(t, "it is known to be the last one up", func() error {
		if e.h.LastUp("id-c1") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	b.expectNoCommands(e)
	e.set("c1", "A", "stopping")
	patience.Until(t, "it is drained", func() error {
		if len(e.drainedRuns()) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	e.noErrors()
}

// expectNoCommands fails the test when HAProxy gets commands although nothing changes.
func (b *balancer) expectNoCommands(e *fakeSupervisor) {
	b.t.Helper()
	time.Sleep(pollSoonFor / 2)
	count := func() float64 { return testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())) }
	before := count()
	time.Sleep(pollInterval)
	if n := count() - before; n > 0 {
		b.t.Errorf("HAProxy was given %v commands although nothing changes", n)
	}
}

// Each healthd cleans up only its own servers, which it recognizes by their agent address.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+strings.Replace(slots, "backend web", "backend other", 1))
	e, other := b.startPushing(), b.newSupervisor()
	other.agent = "127.0.0.1:10"
	other.startDaemon(b.socket())
	e.set("c1", "A", "up")
	e.setIn("other", "c2", "127.0.0.1", b.port("B"), "up")
	other.set("x1", "C", "up")
	b.waitForServers("web", "c1 A UP 100", sorry, "x1 C UP 100")
	b.waitForServers("other", sorry, "web-1 B UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	b.expectNoCommands(e)
	b.expectNoCommands(other)
	e.set("c1", "A", "gone")
	b.waitForServers("web", sorry, "x1 C UP 100")
	e.noErrors()
	other.noErrors()
}

// A server that an operator has begun to delete is left to the operator.
func TestMaintWithoutAgentCheckStays(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	b.runCommand("set server web/c1 state maint")
	b.runCommand("disable agent web/c1")
	e.waitForEvent(EventError, "the agent check of server web/c1 is disabled: healthd does not change the server until it is enabled")
	e.set("c1", "A", "down")
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A MAINT 100", sorry)
	b.runCommand("enable agent web/c1")
	b.runCommand("set server web/c1 state ready")
	b.waitForServers("web", "c1 A UP 100", sorry)
}

// A slot that an operator set to drain is not used.
func TestDrainedSlotIsNotFilled(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	b.runCommand("set server web/web-1 state drain")
	e := b.startPushing()
	e.set("c1", "A", "up")
	b.waitForServers("web", sorry, "web-1 0.0.0.0:0 DRAIN 100", "web-2 A UP 100", "web-3 0.0.0.0:0 MAINT 100")
	e.noErrors()
}

// A server in drain or maint stays so when its container is renamed.
func TestRenamedWhileSetAside(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	b.runCommand("set server web/c1 state maint")
	renamed := newView("web", "renamed", "127.0.0.1", b.port("A"), "up")
	renamed.Container.ID = "id-c1"
	e.mu.Lock()
	e.views["c1"] = renamed
	e.mu.Unlock()
	e.updateBoard()
	time.Sleep(2 * pollInterval)
	b.waitForServers("web", "c1 A MAINT 100", sorry)
	b.runCommand("set server web/c1 state ready")
	b.waitForServers("web", "renamed A UP 100", sorry)
	e.noErrors()
}

// A name that does not fit on HAProxy's command line does not affect others.
func TestLongName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set(strings.Repeat("x", 20_000), "A", "up")
	fits := strings.Repeat("y", maxName)
	e.set(fits, "B", "up")
	b.waitForServers("web", sorry, fits+" B UP 100")
	e.waitForEvent(EventError, "container "+strings.Repeat("x", 32)+"… cannot be a server: its name is longer than 255 bytes")
	if lost := e.recorded(EventLost); len(lost) > 0 {
		t.Error(lost)
	}
}

// Of two containers with one name, on two engines, the one that can take more traffic is
// the server.
func TestDuplicateContainerName(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	stopped := newView("web", "c1", "", 81, "down")
	stopped.Container.ID = "a-lower-id"
	e.mu.Lock()
	e.views["of another engine"] = stopped
	e.mu.Unlock()
	e.updateBoard("a-lower-id")
	e.set("c1", "A", "up")
	b.waitForServers("web", "c1 A UP 100", sorry)
	e.waitForEvent(EventError, "several containers are called c1, and there can be one server of a name")
}

// An agent check that keeps changing a server's state back is reported, instead of being
// overwritten for ever.
func TestContradictingAgentCheckIsReported(t *testing.T) {
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
	e := b.newSupervisor()
	e.agent = ln.Addr().String()
	e.startDaemon(b.socket())
	e.set("c1", "A", "up")
	e.waitForEvent(EventError, "server web/c1 does not keep its state")
	e.set("c2", "B", "up")
	e.waitForEvent(EventError, "the agent-check of server web/c2 asks port 9 and not healthd's")
	time.Sleep(2 * pollInterval)
	if errs := e.recorded(EventError); len(errs) != 2 {
		t.Errorf("%d events: %q", len(errs), errs)
	}
	if n := testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())); n > 2*maxRepeats {
		t.Errorf("HAProxy was given %v commands", n)
	}
}

// A slot that refuses its address gets no request.
func TestSlotThatRefusesItsAddress(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"  server-template web- 1 localhost:80 disabled init-addr none check agent-check agent-addr 127.0.0.1 agent-port 9\n")
	e := b.startPushing()
	e.set("c1", "A", "up")
	e.waitForEvent(EventError, `"set server web/web-1 addr 127.0.0.1 port `)
	time.Sleep(2 * pollInterval)
	servers, err := b.servers("web")
	if err != nil || slices.ContainsFunc(servers, (*server).takesTraffic) {
		t.Errorf("it takes requests, %v", err)
	}
	if n := testutil.ToFloat64(e.h.metrics.commands.WithLabelValues(b.socket())); n > 40 {
		t.Errorf("HAProxy was given %v commands", n)
	}
}

// A server with the configured weight 0 keeps it.
func TestZeroInitialWeight(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, "backend web\n  default-server agent-check agent-addr 127.0.0.1 agent-port 9\n  server c1 127.0.0.1:81 weight 0\n  server c2 127.0.0.1:82 weight 1\n")
	e := b.startPushing()
	for _, what := range []string{"up", "draining", "down", "up"} {
		e.set("c1", "A", what)
		e.set("c2", "B", what)
	}
	b.waitForServers("web", "c1 127.0.0.1:81 no check 0", "c2 127.0.0.1:82 no check 1")
	b.expectNoCommands(e)
	e.noErrors()
}

// The state of a backend without members is dropped.
func TestBackendsAreForgotten(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.newSupervisor()
	end := e.startDaemon(b.socket())
	for i := range 100 {
		e.setIn(fmt.Sprintf("none-%d", i), "c1", "127.0.0.1", 81, "up")
	}
	e.set("c1", "A", "up")
	e.set("c1", "A", "gone")
	b.waitForServers("web", sorry)
	patience.Until(t, "the backends are forgotten", func() error {
		if r := e.h.instances[0].report.Load(); r == nil || len(r.backends) > 0 {
			return fmt.Errorf("the report is %+v", r)
		}
		return nil
	})
	end()
	if books := e.h.instances[0].backends; len(books) > 0 {
		t.Errorf("%d backends are remembered", len(books))
	}
}

// Containers that have ended give up their slots to those that run, if need be.
func TestStoppedContainersGiveUpTheirSlots(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	e := b.startPushing()
	for i, name := range []string{"blue-1", "blue-2", "blue-3"} {
		e.set(name, string(rune('A'+i)), "up")
	}
	b.waitForServers("web", sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100")
	b.runCommand("set server web/web-3 state maint")
	for _, name := range []string{"blue-1", "blue-2", "blue-3"} {
		e.setIn("web", name, "", 81, "down") // it has no network
	}
	e.set("green-1", "D", "up")
	e.set("green-2", "E", "up")
	b.waitForServers("web", sorry, "web-1 D UP 100", "web-2 E UP 100", "web-3 C MAINT 100")
	e.noErrors()
	e.set("green-3", "F", "up")
	e.waitForEvent(EventError, "there is no free server-template slot for container green-3")
}

// A backend that HAProxy has disabled does not affect others.
func TestDisabledBackend(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic+"backend other\n  disabled\n  server x1 127.0.0.9:81\n")
	e := b.startPushing()
	e.setIn("other", "c2", "127.0.0.1", b.port("B"), "up")
	e.set("c1", "A", "up")
	e.waitForEvent(EventError, "show stat lacks servers of backend other: is it disabled?")
	b.waitForServers("web", "c1 A UP 100", sorry)
	e.set("c1", "A", "down")
	b.waitForServers("web", "c1 A DOWN (agent) 100", sorry)
	e.setIn("other", "c2", "127.0.0.1", b.port("B"), "stopping")
	time.Sleep(20 * pollSoon)
	if runs, lost := e.drainedRuns(), e.recorded(EventLost); len(runs) > 0 || len(lost) > 0 {
		t.Errorf("drained %v, lost %v", runs, lost)
	}
}

// An agent check that an operator disabled is not enabled again, whatever the weight.
func TestChecksDisabledByHandStay(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "down")
	e.set("c2", "B", "up")
	b.waitForServers("web", "c1 A DOWN (agent) 0", "c2 B UP 100", sorry)
	time.Sleep(20 * pollSoon) // the instance has polled since the command
	b.runCommand("disable agent web/c1")
	b.runCommand("disable health web/c2")
	b.runCommand("disable agent web/c2")
	b.runCommand("set server web/c2 state maint")
	e.waitForEvent(EventError, "the agent check of server web/c1 is disabled")
	e.waitForEvent(EventError, "the agent check of server web/c2 is disabled")
	time.Sleep(2 * pollInterval)
	servers, err := b.servers("web")
	for _, s := range servers {
		if s.name != "sorry" && s.agentState&checkEnabled != 0 || s.name == "c2" && s.adminState&adminMaint == 0 {
			t.Errorf("%s is %+v", s.name, s)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A container does not inherit drain or maint with the address of another one.
func TestAddressOfAServerSetAside(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.startPushing()
			e.set("web-1", "A", "up")
			patience.Until(t, "it is up", func() error { return b.expectServers(1) })
			b.runCommand("set server web/web-1 state maint")
			e.set("web-1", "A", "gone")
			e.waitForEvent(EventError, "server web/web-1 is in drain or maint and its container is gone")
			e.set("other", "A", "up")
			if name == "dynamic" {
				b.waitForServers("web", "other A UP 100", sorry, "web-1 A MAINT 100")
			} else {
				b.waitForServers("web", sorry, "web-1 A MAINT 100", "web-2 A UP 100", "web-3 0.0.0.0:0 MAINT 100")
			}
		})
	}
}

// During a deploy a container has its slot before it has an address. Nothing is set then: HAProxy would
// be given the same commands again and again, and the history an error.
func TestFreeSlotOfAContainerWithoutAddress(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	e := b.startPushing()
	e.setIn("web", "web-1", "", b.port("A"), "down")
	b.expectNoCommands(e)
	e.noErrors()
	e.set("web-1", "A", "up")
	b.waitForServers("web", sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
}
