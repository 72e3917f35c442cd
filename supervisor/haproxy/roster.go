package haproxy

import (
	"slices"

	"healthd/supervisor"
)

// roster is which members the backends should have, by the board. Taking in the change of one container costs
// as much as its backend and service have members, however many others there are. Containers of other hosts are as those
// of this one.
type roster struct {
	network  network
	places   map[string]place // by container ID
	backends map[string]*roll // by name
}

// place is where a container is a member. Its state is not kept: there may be a newer one by the next change.
type place struct{ backend, service, host, name string }

func placeOf(m *supervisor.Member) place { return place{m.Backend, m.Service, m.Host, m.Container} }

// roll is the members of one backend, and what of them has changed since clear.
type roll struct {
	members  []member
	awaiting int             // members that await the end of a drain
	remade   bool            // there are others, or others with these names
	touched  map[string]bool // names of members of which only the state of their container has changed, maxWatched at most
}

func newRoster() *roster { return &roster{places: map[string]place{}, backends: map[string]*roll{}} }

// roll returns that of a backend, which may be new.
func (r *roster) roll(backend string) *roll {
	l := r.backends[backend]
	if l == nil {
		l = &roll{touched: map[string]bool{}}
		r.backends[backend] = l
	}
	return l
}

// size is the number of members of all backends.
func (r *roster) size() (n int) {
	for _, l := range r.backends {
		n += len(l.members)
	}
	return n
}

func (l *roll) changed() bool { return l.remade || len(l.touched) > 0 }

func (l *roll) clear() {
	l.remade = false
	clear(l.touched)
}

func (l *roll) set(members []member) {
	if !slices.Equal(l.members, members) {
		l.members, l.remade = members, true
	}
	l.awaiting = 0
	for i := range members {
		if members[i].awaitsDrain {
			l.awaiting++
		}
	}
}

// takeAll takes in the whole board.
func (r *roster) takeAll(board *supervisor.Board) {
	r.places = map[string]place{}
	var found []supervisor.Member
	for m := range board.AllMembers() {
		r.places[m.ID] = placeOf(&m)
		found = append(found, r.network.sees(m))
	}
	all := membersByBackend(found)
	for backend := range all {
		r.roll(backend)
	}
	for backend, l := range r.backends {
		l.set(all[backend])
	}
}

// take takes in the containers with these IDs; those that are not on the board are gone.
func (r *roster) take(ids map[string]bool, board *supervisor.Board) {
	backends, services, touched := map[string]bool{}, map[string]bool{}, map[string][]supervisor.Member{}
	for id := range ids {
		old, was := r.places[id]
		m, there := board.Member(id)
		m = r.network.sees(m)
		delete(r.places, id)
		if there {
			r.places[id] = placeOf(&m)
			if was && old == r.places[id] {
				touched[old.backend] = append(touched[old.backend], m)
				continue
			}
			backends[m.Backend], services[m.Service] = true, true
		}
		if was {
			backends[old.backend], services[old.service] = true, true
		}
	}
	delete(backends, "")
	delete(touched, "")
	for backend, these := range touched {
		if !backends[backend] && !r.roll(backend).touch(these) {
			backends[backend] = true
		}
	}
	r.remake(backends, services, board)
	for backend, these := range touched {
		if backends[backend] {
			r.roll(backend).touchAnew(these)
		}
	}
}

// touch changes the members of a backend to what these say. It returns false when it would be cheaper to
// make all members anew, or when their names may mean others now.
func (l *roll) touch(these []supervisor.Member) bool {
	if len(these) > maxSearched {
		return false
	}
	for k := range these {
		i := slices.IndexFunc(l.members, func(m member) bool { return m.id == these[k].ID })
		if i < 0 || l.members[i].duplicateName {
			return false
		}
		m := l.members[i]
		m.follow(&these[k])
		if m == l.members[i] {
			continue
		}
		if m.awaitsDrain != l.members[i].awaitsDrain {
			l.awaiting += map[bool]int{true: 1, false: -1}[m.awaitsDrain]
		}
		l.members[i] = m
		l.touched[m.name] = true
	}
	if len(l.touched) > maxWatched { // that needs a whole look, and HAProxy may be away for long
		l.remade = true
		clear(l.touched)
	}
	return true
}

// touchAnew notes the members of a remade roll of which only the state of their container has changed: readiness need not wait
// for what makes the others new.
func (l *roll) touchAnew(these []supervisor.Member) {
	if len(these) > maxSearched {
		return
	}
	for k := range these {
		i := slices.IndexFunc(l.members, func(m member) bool { return m.id == these[k].ID })
		if i >= 0 && !l.members[i].duplicateName && len(l.touched) < maxWatched {
			l.touched[l.members[i].name] = true
		}
	}
}

// maxSearched is how many members are searched for among all of a backend.
const maxSearched = 32

// remake makes the members of these backends anew, and of those that have containers of these services: a name
// in a service depends on the others there.
func (r *roster) remake(backends, services map[string]bool, board *supervisor.Board) {
	for _, p := range r.places {
		if p.backend != "" && services[p.service] {
			backends[p.backend] = true
		}
	}
	if len(backends) == 0 {
		return
	}
	for _, p := range r.places {
		if backends[p.backend] {
			services[p.service] = true
		}
	}
	var found []supervisor.Member
	for id, p := range r.places {
		if backends[p.backend] || services[p.service] {
			if m, there := board.Member(id); there { // else its end is told of later
				found = append(found, r.network.sees(m))
			}
		}
	}
	all := membersByBackend(found)
	for backend := range backends {
		r.roll(backend).set(all[backend])
	}
}

// membersByBackend is members, of containers in any order.
func membersByBackend(all []supervisor.Member) map[string][]member {
	supervisor.SortMembers(all)
	return members(all)
}
