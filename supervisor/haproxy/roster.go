package haproxy

import (
	"cmp"
	"slices"
	"strings"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// roster is which members the backends should have, by the board. Taking in the change of one container costs
// as much as its backend and service have members, however many others there are.
type roster struct {
	places   map[string]place // by container ID
	backends map[string]*roll // by name
}

// place is where a container is a member. Its view is not kept: there may be a newer one by the next change.
type place struct{ backend, service, name string }

func placeOf(v *core.View) place {
	p := place{service: v.Service, name: v.Container.Name}
	if v.Spec != nil {
		p.backend = v.Spec.Publish.HAProxy.Backend
	}
	return p
}

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
	var views []*core.View
	for v := range board.All() {
		r.places[v.Container.ID] = placeOf(v)
		views = append(views, v)
	}
	all := membersByBackend(views)
	for backend := range all {
		r.roll(backend)
	}
	for backend, l := range r.backends {
		l.set(all[backend])
	}
}

// take takes in the containers with these IDs; those that are not on the board are gone.
func (r *roster) take(ids map[string]bool, board *supervisor.Board) {
	backends, services, touched := map[string]bool{}, map[string]bool{}, map[string][]*core.View{}
	for id := range ids {
		old, was := r.places[id]
		v := board.ByID(id)
		delete(r.places, id)
		if v != nil {
			r.places[id] = placeOf(v)
			if was && old == r.places[id] {
				touched[old.backend] = append(touched[old.backend], v)
				continue
			}
			backends[r.places[id].backend], services[v.Service] = true, true
		}
		if was {
			backends[old.backend], services[old.service] = true, true
		}
	}
	delete(backends, "")
	delete(touched, "")
	for backend, views := range touched {
		if !backends[backend] && !r.roll(backend).touch(views) {
			backends[backend] = true
		}
	}
	r.remake(backends, services, board)
	for backend, views := range touched {
		if backends[backend] {
			r.roll(backend).touchAnew(views)
		}
	}
}

// touch changes the members of a backend to what the views say. It returns false when it would be cheaper to
// make all members anew, or when their names may mean others now.
func (l *roll) touch(views []*core.View) bool {
	if len(views) > maxSearched {
		return false
	}
	for _, v := range views {
		i := slices.IndexFunc(l.members, func(m member) bool { return m.id == v.Container.ID })
		if i < 0 || l.members[i].duplicateName {
			return false
		}
		m := l.members[i]
		m.follow(v)
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
func (l *roll) touchAnew(views []*core.View) {
	if len(views) > maxSearched {
		return
	}
	for _, v := range views {
		i := slices.IndexFunc(l.members, func(m member) bool { return m.id == v.Container.ID })
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
	var views []*core.View
	for id, p := range r.places {
		if backends[p.backend] || services[p.service] {
			if v := board.ByID(id); v != nil { // else its end is told of later
				views = append(views, v)
			}
		}
	}
	all := membersByBackend(views)
	for backend := range backends {
		r.roll(backend).set(all[backend])
	}
}

// membersByBackend is members, of views in any order.
func membersByBackend(views []*core.View) map[string][]member {
	slices.SortFunc(views, func(a, b *core.View) int {
		return cmp.Or(strings.Compare(a.Container.Name, b.Container.Name), strings.Compare(a.Container.ID, b.Container.ID))
	})
	return members(views)
}
