package supervisor

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Member is a published container as those see it who send traffic: one of this host, or one that another host of
// the fleet publishes. It never changes.
type Member struct {
	Host      string             // of the fleet; empty: this one
	Container string             // its name on its host; of this host's Container.Name
	Local     *runtime.Container // nil: of another host
	ID        string             // HOST/ID of another host's
	Run       runtime.Run        // its ID is Member.ID
	Service   string             // empty: none
	Owned     bool               // a file names the service: see core.Publish
	Group     string
	Backend   string // publish.haproxy.backend; empty: none
	Address   string // an IP address; empty: it has none
	Port      int    // at which it is reached there; 0: no publish.port is given
	Phase     core.Phase

	Ready            bool
	Reason           string // one of core's NotReady constants; empty: it is ready
	Draining         bool   // see core.State.Draining
	DrainingReady    bool   // see core.View.DrainingReady
	AwaitsDrain      bool   // see core.State.AwaitsDrain
	AwaitsWithdrawal bool   // see core.State.AwaitsWithdrawal
}

// MemberOf returns a container of this host as a member. One with invalid labels has no backend, no port, and is not
// ready.
func MemberOf(v *core.View) Member {
	m := Member{
		Container: v.Container.Name, Local: v.Container, ID: v.Container.ID, Run: v.State.Run.ID, Service: v.Service, Group: v.Group,
		Phase: v.Phase(), Draining: v.State.Draining(), DrainingReady: v.DrainingReady(),
		AwaitsDrain: v.State.AwaitsDrain(), AwaitsWithdrawal: v.State.AwaitsWithdrawal(),
	}
	m.Ready, m.Reason, _ = v.Readiness()
	m.Address, m.Port = v.Address()
	if v.Spec != nil {
		m.Owned, m.Backend = v.Spec.Publish.Owned, v.Spec.Publish.HAProxy.Backend
	}
	return m
}

// The states of a member, as other hosts and people are told of it.
const (
	MemberReady    = "ready"
	MemberDraining = "draining" // it takes no new requests, and still runs
	MemberDown     = "down"
)

// State returns one of these.
func (m *Member) State() string {
	switch {
	case m.Ready:
		return MemberReady
	case m.Draining:
		return MemberDraining
	}
	return MemberDown
}

// RemoteName returns the name of another host's member: HOST:CONTAINER.
func (m *Member) RemoteName() string { return m.Host + ":" + m.Container }

func (m *Member) service() service {
	if m.Service == "" {
		return service{}
	}
	return service{m.Service, m.Owned}
}

// MemberNames returns a name for each of members, by which FindMember finds it: those of NamesAmong for this host's, and
// HOST:CONTAINER for others.
func MemberNames(members []Member) []string {
	var local []*runtime.Container
	for i := range members {
		if members[i].Local != nil {
			local = append(local, members[i].Local)
		}
	}
	of := runtime.NamesAmong(local)
	names := make([]string, len(members))
	for i := range members {
		if members[i].Local == nil {
			names[i] = members[i].RemoteName()
			continue
		}
		names[i], of = of[0], of[1:]
	}
	return names
}

// compareMembers orders members: this host's, then those of each other host, by name.
func compareMembers(a, b *Member) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
}

// SortMembers sorts members as Services does: this host's come first, then those of each other host, by name.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return compareMembers(&a, &b) })
}

// Member returns the member of that ID, of this host or another one.
func (b *Board) Member(id string) (Member, bool) {
	if v := b.ByID(id); v != nil {
		return MemberOf(v), true
	}
	if m := b.remote.get(id); m != nil {
		return *m, true
	}
	return Member{}, false
}

// AllMembers yields all containers of the board and then all members of other hosts, in no order. Not all of them are
// published under a service.
func (b *Board) AllMembers() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for v := range b.All() {
			if !yield(MemberOf(v)) {
				return
			}
		}
		for m := range b.RemoteMembers() {
			if !yield(m) {
				return
			}
		}
	}
}

// FindMember is Find for a NAME or SERVICE/NAME, whose container must be published under the
// service; another error is then ErrOtherService. The service's project may be left out, also when
// several have such a service: the container tells which is meant. Services may have a slash in
// their name, containers cannot. NAME is HOST:CONTAINER of another host's; if this host has a container that NameOf calls
// so, of that service, it means that.
func (b *Board) FindMember(name string) (Member, error) {
	service, name, inService := cutService(name)
	v, err := b.findLocal(service, name, inService)
	m := b.remote.find(name)
	if err == nil && (m == nil || inService && !isMember(m.Service, service) || b.NameOf(v.Container) == name) {
		return MemberOf(v), nil
	}
	if m != nil {
		if !inService || isMember(m.Service, service) {
			return *m, nil
		}
		if errors.Is(err, ErrUnknownContainer) {
			err = ErrOtherService
		}
	}
	return Member{}, err
}

// cutService cuts SERVICE/NAME; found is false for a NAME alone.
func cutService(s string) (service, name string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// findLocal is FindMember for this host's containers.
func (b *Board) findLocal(service, name string, inService bool) (*core.View, error) {
	v, err := b.Find(name)
	if !inService {
		return v, err
	}
	if _, ambiguous := errors.AsType[*AmbiguousNameError](err); ambiguous {
		members := slices.DeleteFunc(b.names.find(name), func(v *core.View) bool { return !isMember(v.Service, service) })
		if len(members) == 0 {
			return nil, ErrOtherService
		}
		return only(members)
	}
	if err == nil && !isMember(v.Service, service) {
		return nil, ErrOtherService
	}
	return v, err
}

// FindWholeService is FindService for the service of all hosts, as Services has it. Services of all hosts count for what a name means.
func (b *Board) FindWholeService(name string) (Service, error) {
	full, local, others, err := b.findOnAllHosts(name)
	if err != nil {
		return Service{}, err
	}
	return serviceWith(full, local, others), nil
}

func (b *Board) findOnAllHosts(name string) (full string, local []*core.View, others []*Member, err error) {
	full, err = b.findServiceOfAll(name)
	if err != nil {
		return "", nil, nil, err
	}
	local = b.sorted(func(v *core.View) bool { return v.Service == full })
	others = b.remote.sorted(func(m *Member) bool { return m.Service == full })
	if len(local)+len(others) == 0 { // gone since
		return "", nil, nil, ErrUnknownService
	}
	return full, local, others, nil
}

func (b *Board) findServiceOfAll(name string) (string, error) {
	part := lastPart(name)
	all, remote := b.services.of(part), b.remote.services.of(part)
	if len(remote) > 0 {
		all = slices.Concat(all, remote)
		sortServices(all)
	}
	return findService(name, all)
}
