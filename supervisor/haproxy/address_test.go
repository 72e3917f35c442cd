package haproxy

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
)

// A server of the configuration leads to its member at the member's own addresses and where its engine publishes it, and
// nowhere else.
func TestPlacesOfAMember(t *testing.T) {
	t.Parallel()
	own := runtime.Container{Address: "10.0.0.2", Networks: []runtime.NetworkAddress{{Network: "a", Address: "10.0.0.2"}, {Network: "b", Address: "10.1.0.2"}}}
	published := own
	published.HostPorts = append(runtime.HostPortsOf(8080, "", 8091), runtime.HostPortsOf(8080, "127.0.0.11", 80)...)
	host := runtime.Container{Address: "127.0.0.1", HostNetwork: true}
	for _, tt := range []struct {
		c    *runtime.Container // nil: of another host
		at   string
		want bool
	}{
		{&own, "10.0.0.2:8080", true},
		{&own, "10.0.0.2:9090", true},
		{&own, "10.1.0.2:8080", true},
		{&own, "10.0.0.3:8080", false},
		{&own, "192.0.2.1:8080", false},
		{&published, "192.0.2.1:8091", true},
		{&published, "10.0.0.3:8091", false}, // is another's
		{&published, "192.0.2.1:8080", false},
		{&published, "127.0.0.11:80", true},
		{&published, "127.0.0.12:80", false},
		{&host, "127.0.0.1:8080", true},
		{&host, "192.0.2.1:8080", true},
		{&host, "127.0.0.1:9090", false},
		{&host, "10.0.0.3:8080", false},
		{nil, "10.0.0.2:8080", true},
		{nil, "10.0.0.2:9090", false},
	} {
		m := supervisor.Member{ID: "1", Container: "c1", Local: tt.c, Address: "10.0.0.2", Port: 8080}
		if tt.c != nil {
			m.Address = tt.c.Address
		}
		p := planFor("web", nil, nil, 0)
		p.ownerOf = func(a netip.Addr) string { return map[string]string{"10.0.0.3": "other"}[a.String()] }
		of, at := newMember(&m, "c1", "c1"), netip.MustParseAddrPort(tt.at)
		if got := p.leadsTo(&server{address: at.Addr(), port: int(at.Port())}, &of); got != tt.want {
			t.Errorf("%s, %+v: got %v", tt.at, tt.c, got)
		}
	}
}

// A server of the configuration has the address that its container had, and that another one has now: it gets the container's
// before it gets requests.
func TestAddressOfAStranger(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, "backend web\n  default-server agent-check agent-addr 127.0.0.1 agent-port 9\n"+
		"  server c1 127.0.0.9:81 weight 100\n  server c2 127.0.0.8:81 weight 100\n  server c3 /run/none.sock weight 100\n")
	e := b.startPushing()
	e.setIn("", "stranger", "127.0.0.9", 81, "up")
	for i, name := range []string{"c1", "c2", "c3"} {
		e.set(name, string(rune('A'+i)), "up")
	}
	b.waitForServers("web", "c1 A no check 100", "c2 B no check 100", "c3 invalid IP:0 no check 100")
	e.waitForEvent(EventError, fmt.Sprintf("server web/c1 has the address 127.0.0.9:81 of container stranger, and container c1 has 127.0.0.1:%d: "+
		"healthd sets that. HAProxy's configuration still has the other one", b.port("A")))
	e.waitForEvent(EventError, "server web/c2 has the address 127.0.0.8:81 of no container that healthd knows, and container c2 has 127.0.0.1:")
	e.waitForProblems()
	e.setIn("web", "c1", "127.0.0.7", 81, "up") // a new run
	b.waitForServers("web", "c1 127.0.0.7:81 no check 100", "c2 B no check 100", "c3 invalid IP:0 no check 100")
}

// HAProxy finds the address of a server by a name: while that is another container's, the server gets no requests, also
// by what its agent check is told. A daemon that knows of no other ends that.
func TestNameThatLeadsToAStranger(t *testing.T) {
	t.Parallel()
	agent := answerAgentChecks(t)
	b := startBalancer(t, fmt.Sprintf("backend web\n  server c1 localhost:81 init-addr libc weight 100 agent-check agent-addr 127.0.0.1 agent-port %d agent-inter 100ms agent-send \"web/c1\\n\"\n"+
		"  server c2 localhost:81 init-addr libc weight 100\n", agent.Port()))
	e := b.newSupervisor()
	e.agent = agent.String()
	end := e.startDaemon(b.socket())
	e.setIn("", "stranger", "127.0.0.1", 81, "up")
	e.setIn("web", "c1", "127.0.0.7", 81, "up")
	e.setIn("web", "c2", "127.0.0.7", 81, "up")
	patience.Until(t, "it is kept out, by its agent, too", func() error {
		answer, err := b.try("show stat web 4 -1")
		if err == nil && (!strings.Contains(answer, "DOWN (agent)") || !strings.Contains(answer, "NoContainer")) {
			err = fmt.Errorf("HAProxy shows %s", answer)
		}
		return err
	})
	e.waitForEvent(EventError, "server web/c1 has the address 127.0.0.1:81 of container stranger, and container c1 has 127.0.0.7:81: "+
		"it gets no requests until HAProxy finds the container by the name localhost. Without resolvers, it does so when it is reloaded")
	e.waitForEvent(EventError, "server web/c2 has the address 127.0.0.1:81 of container stranger, and container c2 has 127.0.0.7:81, "+
		"and without an agent-check that asks healthd it cannot be kept from requests")
	end()
	if answer, err := b.try("set server web/c1 addr 127.0.0.7 port 81"); err != nil || !isMoved(answer) { // as resolvers do
		t.Fatal(answer, err)
	}
	e.startDaemon(b.socket())
	patience.Until(t, "it gets requests", func() error {
		all, err := b.servers("web")
		i := slices.IndexFunc(all, func(s *server) bool { return s.name == "c1" })
		if err == nil && (i < 0 || !all[i].takesTraffic()) {
			err = fmt.Errorf("it is %+v", all)
		}
		return err
	})
}

// answerAgentChecks answers as healthd's agent listener does, of one ready container.
func answerAgentChecks(t *testing.T) netip.AddrPort {
	t.Helper()
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
			go func() {
				defer conn.Close()
				name, _ := bufio.NewReader(conn).ReadString(',')
				if strings.HasPrefix(name, "web/c1") {
					fmt.Fprint(conn, "up 100%\n")
					return
				}
				fmt.Fprint(conn, "down # NoContainer\n")
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}
