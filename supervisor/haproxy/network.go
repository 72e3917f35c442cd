package haproxy

import (
	"context"
	"fmt"
	"net/netip"

	"healthd/runtime/hostproc"
	"healthd/supervisor"
)

// network is whose loopback addresses HAProxy has. To one in a container they are its own: 127.0.0.1, as a container on
// the host's network has it, leads from there to HAProxy itself.
type network uint8

const (
	networkUnknown network = iota // it is taken for healthd's
	networkShared                 // healthd's
	networkOther
)

// networkOf finds out about the process that listens on a socket.
func networkOf(ctx context.Context, s socket) network {
	if s.network != "unix" {
		return networkUnknown
	}
	shared, sure := hostproc.ListensHere(s.address)
	if !sure {
		program, same := hostproc.Peer(ctx, s.address)
		shared, sure = same, program != ""
	}
	switch {
	case !sure:
		return networkUnknown
	case shared:
		return networkShared
	}
	return networkOther
}

// sees returns a member with the address at which HAProxy reaches it; none: there is only one of another network.
func (n network) sees(m supervisor.Member) supervisor.Member {
	c := m.Local
	// Seen from a container of healthd's own, another network may be the host's.
	if c == nil || n == networkUnknown || n == networkOther && c.From.Confined() {
		return m
	}
	if n == networkShared && !c.From.Confined() {
		if c.HostNetwork { // publish.host_address is for others
			m.Address, _, _ = c.Local(m.Port, false)
		}
		return m
	}
	if a, err := netip.ParseAddr(m.Address); err == nil && a.IsLoopback() {
		m.Address = ""
	}
	return m
}

// keepOut returns a member that HAProxy does not reach as one that gets no requests, and says what to do.
func (p *plan) keepOut(m *member) *member {
	advice := "Publish its port at an address of the host that HAProxy reaches"
	if m.hostNetwork {
		advice = "Set publish.host_address to an address of the host that HAProxy reaches"
	}
	p.addProblem(m.name, fmt.Sprintf("container %s gets no requests: its address is one of the host's loopback, "+
		"and HAProxy has another network. %s", m.name, advice))
	out := *m
	out.want, out.agentName = wantDown, noContainer
	return &out
}
