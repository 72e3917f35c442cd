package supervisor

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// remote is the members of other hosts. One goroutine writes it, which is not the loop; any may read it, and neither
// waits for the other.
type remote struct {
	expected atomic.Bool // there is a fleet
	known    atomic.Bool

	byID table[string, *Member]
	// byName has the IDs of HOST:CONTAINER, newest last; the slices never change. For a moment an old container and
	// the new one that has its name may both be there.
	byName   table[string, []string]
	services services
	gone     gone // names
}

// ExpectRemote says that there is a fleet: the board is not Complete before RemoteKnown. Call it before Supervisor.Run.
func (b *Board) ExpectRemote() { b.remote.expected.Store(true) }

// ExpectsRemote says that there is a fleet.
func (b *Board) ExpectsRemote() bool { return b.remote.expected.Load() }

// ShowRemote shows members of other hosts, and removes those with these IDs. Each has a Host, its ID and Run are of the
// form HOST/ID, and Local is nil. It costs as much as what it is given. Changed tells of it, if anything is new; a
// Publisher is not told. Only one goroutine may call it.
func (b *Board) ShowRemote(put []Member, gone []string) {
	b.remote.gone.prune(b.Synced())
	changed := false
	for i := range put {
		changed = b.remote.put(&put[i]) || changed
	}
	for _, id := range gone {
		if m := b.remote.get(id); m != nil && !b.Synced() {
			b.remote.gone.note("", m.RemoteName())
		}
		changed = b.remote.remove(id) || changed
	}
	if changed {
		b.changes.tell()
	}
}

// RemoteKnown says that all members of other hosts have been shown, as far as anybody knows: the first list of the
// fleet, or what an earlier daemon kept. Changed tells of it.
func (b *Board) RemoteKnown() {
	if !b.remote.known.Swap(true) {
		b.changes.tell()
	}
}

// Complete says whether the board is Synced and, with a fleet, has the members of other hosts. Who would take away what
// the board does not have waits for it.
func (b *Board) Complete() bool { return b.Synced() && b.remoteComplete() }

func (b *Board) remoteComplete() bool { return !b.ExpectsRemote() || b.remote.known.Load() }

// Knows says whether the board has all containers that FindMember may find by that name: for one that only this host can
// have, it does not wait for others; nor does one wait that was there and is gone.
func (b *Board) Knows(name string) bool {
	_, name, _ = cutService(name)
	return b.Gone(name) || b.goneRemotely(name) || b.Synced() && (!strings.Contains(name, ":") || b.remoteComplete())
}

// RemoteMembers yields all members of other hosts, in no order.
func (b *Board) RemoteMembers() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		b.remote.byID.all(func(_ string, m *Member) bool { return yield(*m) })
	}
}

// get returns the member with that ID; nil: there is none.
func (r *remote) get(id string) *Member {
	if !strings.Contains(id, "/") { // of this host
		return nil
	}
	m, _ := r.byID.get(id)
	return m
}

// find returns the newest member of that HOST:CONTAINER; nil: there is none.
func (r *remote) find(name string) *Member {
	if !strings.Contains(name, ":") {
		return nil
	}
	ids, _ := r.byName.get(name)
	for _, id := range slices.Backward(ids) {
		if m, ok := r.byID.get(id); ok { // else it is gone since
			return m
		}
	}
	return nil
}

// sorted returns the wanted members, sorted as SortMembers does.
func (r *remote) sorted(wanted func(*Member) bool) []*Member {
	var all []*Member
	r.byID.all(func(_ string, m *Member) bool {
		if wanted(m) {
			all = append(all, m)
		}
		return true
	})
	slices.SortFunc(all, compareMembers)
	return all
}

// put shows a member. It returns false when it is there as it is.
func (r *remote) put(as *Member) bool {
	m, old := *as, Member{}
	if before, ok := r.byID.get(m.ID); ok {
		if old = *before; m == old {
			return false
		}
	}
	r.byID.set(m.ID, &m)
	r.services.move(old.service(), m.service())
	if old.ID == "" || old.RemoteName() != m.RemoteName() {
		r.take(m.RemoteName(), m.ID)
		r.release(&old)
	}
	return true
}

func (r *remote) remove(id string) bool {
	old, ok := r.byID.get(id)
	if !ok {
		return false
	}
	r.services.move(old.service(), service{})
	r.release(old)
	r.byID.remove(id)
	return true
}

// take gives a name to the member with that ID.
func (r *remote) take(name, id string) {
	ids, _ := r.byName.get(name)
	r.byName.set(name, append(slices.Clip(ids), id))
}

// release takes its name from a member.
func (r *remote) release(m *Member) {
	if m.ID == "" {
		return
	}
	ids, _ := r.byName.get(m.RemoteName())
	others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == m.ID })
	if len(others) == 0 {
		r.byName.remove(m.RemoteName())
		return
	}
	r.byName.set(m.RemoteName(), others)
}
