package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// HostState is what is known of a host of the fleet.
type HostState string

// The states of a host.
const (
	HostLive HostState = "live" // its lease lives
	HostLost HostState = "lost" // its lease ended
	HostLeft HostState = "left" // it said before that it leaves
)

// MemberCounts says how many members a host has.
type MemberCounts struct {
	Ready, Draining, Down int
}

func (c *MemberCounts) of(state string) *int {
	switch state {
	case stateReady:
		return &c.Ready
	case stateDraining:
		return &c.Draining
	}
	return &c.Down
}

// host is another host of the fleet.
type host struct {
	name    string
	key     *entry // nil: it has none
	last    hostValue
	keys    int
	members MemberCounts
	state   HostState // empty: new
	since   time.Time
}

func (v *view) hostOf(name string) *host {
	h := v.hosts[name]
	if h == nil {
		h = &host{name: name}
		v.hosts[name] = h
	}
	return h
}

func (h *host) add(e *entry) {
	h.keys++
	if e.key.kind == hostKey {
		h.key, h.last = e, e.host
		return
	}
	*h.members.of(e.member.State)++
}

func (h *host) drop(e *entry) {
	h.keys--
	if e.key.kind == hostKey {
		h.key = nil
		return
	}
	*h.members.of(e.member.State)--
}

// judgeHosts finds out which hosts are live. A host without its key is, as long as it has members.
func (v *view) judgeHosts(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(v.out.touched)) {
		h := v.hosts[name]
		v.out.hosts = true
		next := HostLive
		switch {
		case h.keys > 0:
		case h.last.Leaving:
			next = HostLeft
		default:
			next = HostLost
		}
		if next == h.state {
			continue
		}
		before, since := h.state, h.since
		h.state, h.since = next, now
		switch {
		case next == HostLost:
			v.tell(eventHostLost, "Host %s is lost: its lease in the fleet's store has ended. Its members are not served any more", name)
		case before == HostLost:
			v.tell(eventHostBack, "Host %s is back after %v", name, now.Sub(since).Round(time.Second))
		}
	}
	v.boundHosts()
}

// boundHosts forgets those that are not live for longest, if there are too many.
func (v *view) boundHosts() {
	if len(v.hosts) <= v.limits.gone {
		return
	}
	var gone []*host
	for _, h := range v.hosts {
		if h.state != HostLive {
			gone = append(gone, h)
		}
	}
	slices.SortFunc(gone, func(a, b *host) int { return cmp.Or(b.since.Compare(a.since), strings.Compare(a.name, b.name)) })
	for _, h := range gone[min(len(gone), v.limits.gone):] {
		delete(v.hosts, h.name)
		v.out.hosts = true
	}
}

func (v *view) forgetHosts(now time.Time) {
	for name, h := range v.hosts {
		if h.state != HostLive && now.Sub(h.since) >= forgetAfter {
			delete(v.hosts, name)
			v.out.hosts = true
		}
	}
}

// hostList returns the other hosts, sorted by name.
func (v *view) hostList() []Host {
	all := make([]Host, 0, len(v.hosts))
	for _, h := range v.hosts {
		all = append(all, Host{
			Name: h.name, State: h.state, Since: h.since, Address: h.last.Advertise, Version: h.last.Version,
			Balancer: h.last.Balancer, Files: h.last.Files, RuntimesUp: h.last.RuntimesUp, Members: h.members,
		})
	}
	slices.SortFunc(all, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return all
}
