package haproxy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor"
)

// A loopback address goes to no HAProxy of which it is another's.
func TestAddressThatHAProxySees(t *testing.T) {
	t.Parallel()
	bridge := runtime.Container{Address: "172.17.0.2"}
	host := runtime.Container{Address: "127.0.0.1", HostNetwork: true}
	confined, rootless := host, bridge
	confined.From = &runtime.Vantage{Own: "healthd"}
	rootless.From = &runtime.Vantage{Place: runtime.Place{Elsewhere: "rootless", At: netip.MustParseAddr("127.0.0.1")}}
	for _, tt := range []struct {
		name                   string
		c                      *runtime.Container // nil: of another host
		told                   string
		unknown, shared, other string
	}{
		{"on a bridge", &bridge, "172.17.0.2", "172.17.0.2", "172.17.0.2", "172.17.0.2"},
		{"on the host", &host, "127.0.0.1", "127.0.0.1", "127.0.0.1", ""},
		{"on the host, which has a name", &host, "10.0.0.5", "10.0.0.5", "127.0.0.1", "10.0.0.5"},
		{"on the host, healthd in a container", &confined, "127.0.0.1", "127.0.0.1", "", "127.0.0.1"},
		{"on the host, which has a name, healthd in a container", &confined, "10.0.0.5", "10.0.0.5", "10.0.0.5", "10.0.0.5"},
		{"published by a rootless engine", &rootless, "127.0.0.1", "127.0.0.1", "127.0.0.1", ""},
		{"of another host", nil, "10.0.0.6", "10.0.0.6", "10.0.0.6", "10.0.0.6"},
	} {
		for n, want := range map[network]string{networkUnknown: tt.unknown, networkShared: tt.shared, networkOther: tt.other} {
			m := supervisor.Member{Local: tt.c, Address: tt.told, Port: 80, Ready: true}
			seen := n.sees(m)
			if of := newMember(&seen, "c1", "c1"); seen.Address != want || of.unreached != (want == "") {
				t.Errorf("%s, network %d: got %q, unreached: %v, want %q", tt.name, n, seen.Address, of.unreached, want)
			}
		}
	}
}

// A container on the host's network that HAProxy does not reach gets no requests, and no server with HAProxy's own address.
// One that an operator has given the host's address keeps it.
func TestMemberThatHAProxyDoesNotReach(t *testing.T) {
	t.Parallel()
	of := networkOther.sees(supervisor.Member{
		ID: "1", Container: "c1", Service: "web", Ready: true, Address: "127.0.0.1", Port: 8080,
		Local: &runtime.Container{Address: "127.0.0.1", HostNetwork: true},
	})
	at := func(address string, port int, change func(*server)) *server {
		s := &server{
			id: 1, name: "c1", address: netip.MustParseAddr(address), port: port, agentState: checkConfigured | checkEnabled,
			agentAddress: agentAddress{"127.0.0.1", 18647}, agentUp: true, weight: 100, initialWeight: 100,
		}
		change(s)
		return s
	}
	added := func(s *server) { s.id, s.forcedID = firstID, true }
	slot := func(s *server) { s.adminState = adminConfigured }
	configured := func(*server) {}
	const keptOut = "set server web/c1 agent-send -,; set server web/c1 agent down"
	for _, tt := range []struct {
		name    string
		s       *server
		want    string
		problem bool
	}{
		{"no server", nil, "", true},
		{"a free slot", at("0.0.0.0", 0, slot), "", true},
		{"a slot of before", at("127.0.0.1", 8080, slot), keptOut, true},
		{"an added server of before", at("127.0.0.1", 8080, added), keptOut, true},
		{"HAProxy's own address", at("127.0.0.1", 8080, configured), keptOut, true},
		{"the host's address", at("10.0.0.5", 8080, func(s *server) { s.agentUp = false }), "set server web/c1 agent up", false},
	} {
		all := []member{newMember(&of, "c1", "c1")}
		var servers []*server
		if tt.s != nil {
			servers = append(servers, tt.s)
		}
		p := planFor("web", servers, all, 0)
		p.elsewhere = true
		p.compute(all)
		var got []string
		for _, c := range p.commands {
			got = append(got, c.text)
		}
		told := slices.ContainsFunc(p.problems, func(of problem) bool {
			return strings.Contains(of.text, "Set publish.host_address to")
		})
		if strings.Join(got, "; ") != tt.want || told != tt.problem {
			t.Errorf("%s: got %q, told: %v, want %q", tt.name, got, told, tt.want)
		}
	}
}

// HAProxy on the host reaches a container of the host's network at 127.0.0.1. In a container it gets the address that
// publish.host_address says, and none before.
func TestHAProxyInAnotherNetwork(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, "backend web\n  server c1 127.0.0.9:81 weight 100 agent-check agent-addr 127.0.0.1 agent-port 9\n")
	e := b.newSupervisor()
	e.startDaemon(b.socket())
	setOnHost := func(hostIP string) {
		v := newView("web", "c1", "127.0.0.1", b.port("A"), "up")
		v.Container.HostNetwork, v.Spec.Publish.HostIP = true, hostIP
		e.mu.Lock()
		e.views["c1"] = v
		e.mu.Unlock()
		e.updateBoard("id-c1")
	}
	setOnHost("")
	b.waitForServers("web", "c1 A no check 100")
	b.kill()
	b.elsewhere = true
	b.start()
	b.waitForServers("web", "c1 127.0.0.9:81 DOWN (agent) 100")
	const problem = "container c1 gets no requests: its address is one of the host's loopback, and HAProxy has another network"
	e.waitForEvent(EventError, problem)
	e.waitForProblems(problem)
	setOnHost("192.0.2.7")
	b.waitForServers("web", "c1 192.0.2.7:"+strconv.Itoa(b.port("A"))+" no check 100")
	e.waitForProblems()
	b.kill()
	b.elsewhere = false
	b.start()
	b.waitForServers("web", "c1 A no check 100")
}
