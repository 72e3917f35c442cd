package haproxy

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// HAProxy gives a server that is added nothing of what it gives one of its configuration, by default-server or of itself.
// What the socket shows of the backend's other servers is given to it; docs/haproxy.md lists what it does not show.

// addServer adds a server for a member. Its health check is the backend's, its agent check
// asks healthd. When healthd dies, the agent check fails and HAProxy keeps the last state.
func (p *plan) addServer(m *member) {
	like := p.siblings()
	if like.tls {
		p.addProblem(m.name, fmt.Sprintf("container %s gets no server in backend %s: its servers use TLS, and one that is added would not: give it slots (server-template)", m.name, p.backend))
		return
	}
	s := &server{name: m.name, id: p.freeID()}
	if s.id > lastID {
		p.addProblem(m.name, fmt.Sprintf("there are too many servers in backend %s for container %s", p.backend, m.name))
		return
	}
	p.server[m.name] = s
	settings := like.settings()
	switch {
	case !p.givesCookies():
		p.cookieless = true
	case p.cookie, len(p.servers) == 0: // without servers it is not shown
		settings += " cookie " + m.name
	}
	p.commands = append(p.commands, command{
		fmt.Sprintf("add server %s %s %s agent-check agent-addr %s agent-port %d agent-inter %ds agent-send %s, id %d",
			s.key(p.backend), net.JoinHostPort(m.address.String(), strconv.Itoa(m.port)), settings,
			p.agent.host, p.agent.port, p.agentInterval/time.Second, m.agentName, s.id),
		s.key(p.backend), isText("New server registered."),
	})
	p.newAgentSend[s.name] = m.agentName
	p.enableAdded(s, m)
}

// givesCookies says that HAProxy takes cookies of servers that are added.
func (p *plan) givesCookies() bool {
	text, _, _ := strings.Cut(p.version, ".")
	major, err := strconv.Atoi(text)
	return err == nil && major >= 3
}

// warnCookie says of a backend with a cookie that clients do not stick to its added servers, if these have none.
func (p *plan) warnCookie() {
	if p.cookie && p.cookieless {
		p.addProblem(p.backend, fmt.Sprintf("clients do not stick to the servers that healthd adds to backend %s: HAProxy before 3.0 gives these no cookie. "+
			"Give it slots (server-template) and a dynamic-cookie-key", p.backend))
	}
}

// likeness is what servers have in common.
type likeness struct {
	tls                   bool
	weight                int // the smallest that is not 0
	maxConn, maxQueue     int // the smallest; 0: not all have one
	checkAddress          netip.Addr
	checkPort, rise, fall int // 0: they differ, or have none
	idleMost              int
}

// siblings returns what the servers of the configuration have in common. A backup server is none: it says that it is
// sorry, mostly from somewhere else.
func (p *plan) siblings() likeness {
	like, first := likeness{weight: 100, idleMost: -1}, true
	for _, s := range p.servers {
		if p.addedByHealthd(s) || !s.active {
			continue
		}
		own := likeness{s.tls, s.initialWeight, s.maxConn, s.maxQueue, s.checkAddress, s.checkPort, s.rise, s.fall, s.idleMost}
		if first {
			first = false
			like = own
			continue
		}
		like = like.and(own)
	}
	like.weight = cmp.Or(like.weight, 100)
	return like
}

func (l likeness) and(o likeness) likeness {
	both := likeness{
		tls: l.tls && o.tls, weight: min(l.weight, o.weight), maxConn: min(l.maxConn, o.maxConn), maxQueue: min(l.maxQueue, o.maxQueue),
		checkPort: same(l.checkPort, o.checkPort), checkAddress: same(l.checkAddress, o.checkAddress), rise: same(l.rise, o.rise), fall: same(l.fall, o.fall),
		idleMost: -1,
	}
	if l.weight == 0 || o.weight == 0 { // a server that is to get no requests is no measure for others
		both.weight = max(l.weight, o.weight)
	}
	if l.idleMost == o.idleMost {
		both.idleMost = l.idleMost
	}
	return both
}

// same returns the value that both have, or none.
func same[T comparable](a, b T) (none T) {
	if a == b {
		return a
	}
	return none
}

// settings are the words of "add server" that make a server like those. HAProxy 2.6 keeps no connections for reuse
// unless it is told to.
func (l likeness) settings() string {
	var b strings.Builder
	fmt.Fprintf(&b, "weight %d", l.weight)
	if l.maxConn > 0 {
		fmt.Fprintf(&b, " maxconn %d", l.maxConn)
	}
	if l.maxQueue > 0 {
		fmt.Fprintf(&b, " maxqueue %d", l.maxQueue)
	}
	fmt.Fprintf(&b, " pool-max-conn %d pool-purge-delay 5s check", l.idleMost)
	if l.checkAddress.IsValid() {
		fmt.Fprintf(&b, " addr %s", l.checkAddress)
	}
	if l.checkPort > 0 {
		fmt.Fprintf(&b, " port %d", l.checkPort)
	}
	fmt.Fprintf(&b, " inter 2s fall %d rise %d", cmp.Or(l.fall, 3), cmp.Or(l.rise, 2))
	return b.String()
}
