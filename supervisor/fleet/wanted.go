package fleet

import (
	"net/netip"
	"slices"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// memberOf returns what others are told of a container, but not where it is. Its name is the one by which this host's board finds it.
func memberOf(v *core.View, name string) memberValue {
	m := supervisor.MemberOf(v)
	return memberValue{
		Container: name, ID: m.ID, Run: m.Run.Started, State: m.State(), Answers: m.DrainingReady, Awaits: awaitsOf(&m),
		Reason: cut(m.Reason, maxReason), Backend: m.Backend, Owned: m.Owned, Phase: m.Phase, Group: m.Group,
	}
}

func awaitsOf(m *supervisor.Member) string {
	switch {
	case m.AwaitsWithdrawal:
		return awaitsWithdrawal
	case m.AwaitsDrain:
		return awaitsDrain
	}
	return ""
}

// boardMember is the other way.
func (r remote) boardMember() supervisor.Member {
	id := r.boardID()
	reason := r.Reason
	if r.State == stateDraining && reason == "" {
		reason = core.NotReadyDraining
	}
	return supervisor.Member{
		Host: r.host, Container: r.Container, ID: id, Run: runtime.Run{ID: id, Started: r.Run}, Service: r.service, Owned: r.Owned, Group: r.Group,
		Backend: r.Backend, Address: r.Address, Port: r.Port, Phase: r.Phase,
		Ready: r.State == stateReady, Reason: reason, Draining: r.State == stateDraining, DrainingReady: r.State == stateDraining && r.Answers,
		AwaitsDrain: r.State == stateDraining && r.Awaits != "", AwaitsWithdrawal: r.State == stateDraining && r.Awaits == awaitsWithdrawal,
	}
}

// localRun is a run of this host that is about to be stopped.
type localRun struct {
	run        runtime.Run
	container  string // its name in keys
	key, body  string // what others must be told of it
	withdrawal bool   // it awaits that first
}

// wanted is what the store should have of this host.
type wanted struct {
	keys     map[string]string // key to body
	awaiting []localRun
	refused  int // containers whose names others do not take
	// known says that the container with an ID is not wanted if none of its keys is: the board had it, or it is gone. One
	// that may be an engine's whose first list is missing is not known.
	known func(id string) bool
}

// cached is what was told of a container, so that each look at the board does not write all values anew.
type cached struct {
	service string
	ip      netip.Addr
	value   memberValue
	body    string
	key     string
	seen    uint64
}

// look finds out what the store should have.
func (p *publisher) look() *wanted {
	f, board := p.f, p.board
	w := &wanted{keys: make(map[string]string, len(p.cache)+1)}
	p.looks++
	all, looks, others := board.Synced(), p.looks, []string(nil) // before the look, which then sees all
	for v := range board.All() {
		if v.Service == "" {
			others = append(others, v.Container.ID)
			continue
		}
		c := p.entryOf(v)
		if c == nil {
			w.refused++
			others = append(others, v.Container.ID)
			continue
		}
		w.keys[c.key] = c.body
		if c.value.Awaits != "" && c.value.State == stateDraining {
			w.awaiting = append(w.awaiting, localRun{v.State.Run.ID, c.value.Container, c.key, c.body, c.value.Awaits == awaitsWithdrawal})
		}
	}
	for id, c := range p.cache {
		if c.seen != p.looks {
			delete(p.cache, id)
		}
	}
	if body, err := encode(f.hostValue(runtimesUp(board))); err == nil {
		w.keys[p.hostKey] = body
	}
	f.words.wanted(w.keys)
	w.known = func(id string) bool {
		c := p.cache[id]
		return all || c != nil && c.seen == looks || slices.Contains(others, id) || board.Gone(id)
	}
	return w
}

// entryOf returns a container's key and body; nil: others take none of that name.
func (p *publisher) entryOf(v *core.View) *cached {
	c := p.cache[v.Container.ID]
	if c == nil {
		c = &cached{}
	}
	value := memberOf(v, p.board.NameOf(v.Container))
	ip, port := p.f.config.AddressOf(v)
	if ip.IsValid() {
		if value.Address, value.Port = c.value.Address, port; c.ip != ip {
			value.Address = ip.Unmap().String()
		}
	}
	if c.value != value || c.service != v.Service || c.ip != ip {
		k := key{kind: memberKey, service: v.Service, host: p.f.config.Host, container: value.Container}
		text, err := value.encode()
		if err != nil || k.check() != nil {
			return nil
		}
		*c = cached{service: v.Service, ip: ip, value: value, body: bodyOf(text), key: k.String()}
	}
	c.seen = p.looks
	p.cache[v.Container.ID] = c
	return c
}

func runtimesUp(board *supervisor.Board) bool {
	for _, r := range board.Runtimes() {
		if !r.Up {
			return false
		}
	}
	return true
}

// hostValue is what this host says of itself.
func (f *Fleet) hostValue(up bool) hostValue {
	v := hostValue{
		Instance: f.self.instance(), Daemon: f.daemon, Version: cut(f.config.Version, maxName), Balancer: f.config.Balancer, Files: f.files.Load(), RuntimesUp: up,
	}
	if f.config.Advertise.IsValid() {
		v.Advertise = f.config.Advertise.Unmap().String()
	}
	return v
}
