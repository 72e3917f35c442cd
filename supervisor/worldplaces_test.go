package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// worldPlaces are the places of a fleet whose other hosts are played: they take places and give them back, grants
// come late, are not confirmed for a while, or are lost, and the store cannot be reached. All is done with the world's
// lock.
type worldPlaces struct {
	t      *turns
	wished map[string]wish // by container ID
	order  []string        // of those in wished, longest wait first
	held   map[string]string
	others map[string]int // places that the rest of the fleet holds, by group
	stale  bool           // what is held is not confirmed lately enough
	away   bool           // the store cannot be reached
}

func newWorldPlaces(t *turns) *worldPlaces {
	return &worldPlaces{t: t, wished: make(map[string]wish), held: make(map[string]string), others: make(map[string]int)}
}

// placesOfDaemon is the Places of one daemon.
type placesOfDaemon struct {
	*worldPlaces
	d *worldDaemon
}

// Want implements Places.
func (p placesOfDaemon) Want(id, group string, share core.Share) {
	p.of(func() { p.want(id, wish{group, share}) })
}

// Release implements Places.
func (p placesOfDaemon) Release(id string) { p.of(func() { p.release(id) }) }

// State implements Places.
func (p placesOfDaemon) State(id string) (state PlaceState) {
	p.of(func() { state = p.state(id) })
	return state
}

// of does something for the daemon, unless it was killed.
func (p placesOfDaemon) of(do func()) {
	p.d.host.locked(func() {
		if p.d == p.d.host.daemon {
			do()
		}
	})
}

// forget has the next daemon begin anew. The places that the last one held are still the host's.
func (p *worldPlaces) forget() {
	clear(p.wished)
	p.order, p.stale = nil, false
}

func (p *worldPlaces) want(id string, w wish) {
	switch before, ok := p.wished[id]; {
	case !ok:
		p.order = append(p.order, id)
	case before.group != w.group:
		p.t.errorf("%s wants a place of %s and has one of %s", id, w.group, before.group)
	}
	if p.held[id] != w.group { // the last daemon had another configuration
		delete(p.held, id)
	}
	p.wished[id] = w
}

func (p *worldPlaces) release(id string) {
	if _, ok := p.wished[id]; !ok {
		p.t.errorf("%s gives back what it has not wanted", id)
	}
	delete(p.wished, id)
	delete(p.held, id)
	p.order = slices.DeleteFunc(p.order, func(other string) bool { return other == id })
}

func (p *worldPlaces) state(id string) PlaceState {
	_, held := p.held[id]
	return PlaceState{Granted: held && !p.stale && p.wished[id].group != "", Unreachable: p.away, On: "others"}
}

// placesOf is how many places a group has over the fleet.
const placesOf = 2

func (p *worldPlaces) free(group string) bool {
	n := p.others[group]
	for _, of := range p.held {
		if of == group {
			n++
		}
	}
	return n < placesOf
}

// grant gives free places to those that have wanted them longest. What the last daemon held and this one does
// not want is given back.
func (p *worldPlaces) grant() {
	if p.away {
		return
	}
	for id := range p.held {
		if p.wished[id].group != p.held[id] {
			delete(p.held, id)
		}
	}
	for _, id := range p.order {
		if group := p.wished[id].group; p.held[id] == "" && p.free(group) {
			p.held[id] = group
		}
	}
}

// play has something happen to the places.
func (p *worldPlaces) play() {
	group := fmt.Sprint(p.t.r.IntN(turnGroups))
	switch p.t.r.IntN(8) {
	case 0:
		p.stale = !p.stale
	case 1:
		p.away = !p.away
		p.stale = p.stale || p.away && p.t.r.IntN(2) == 0
	case 2: // the lease is lost
		clear(p.held)
	case 3:
		if p.free(group) && !p.away {
			p.others[group]++
		}
	case 4:
		p.others[group] = 0
	default:
		p.stale = p.stale && p.away
		p.grant()
	}
}

// playPlaces has something happen to the places of the fleet, and the daemon be told.
func (h *world) playPlaces(do func()) {
	h.locked(do)
	if d := h.runningDaemon(); d != nil {
		_ = d.sup.PlacesChanged(h.t.Context())
	}
}

// repair has the fleet be there, with all its places.
func (p *worldPlaces) repair() {
	clear(p.others)
	p.stale, p.away = false, false
	p.grant()
}

// check checks who wants a place, and who waits for one, when there is nothing left to do.
func (p *worldPlaces) check() {
	t := p.t
	for _, id := range slices.Sorted(maps.Keys(p.wished)) {
		e := t.l.entries[id]
		switch {
		case e == nil || e.spec == nil || !e.spec.Group.Fleet,
			p.wished[id] != wish{e.groupKey, e.spec.Group.MaxUnavailable}:
			t.errorf("%s wants a place as %+v", id, p.wished[id])
		case t.down(e), waitsFor(e, core.WaitGroupLimit), e.state.Health.Asking():
		case !waitsFor(e, core.WaitRestartBudget) || time.Until(e.state.Health.Wait.Until) > placeHold:
			t.errorf("%s wants a place, is not down, and waits for %+v", e.container.Name, e.state.Health.Wait)
		}
	}
	for id, e := range t.l.entries {
		if e.spec == nil {
			continue
		}
		if _, wished := p.wished[id]; t.down(e) && e.spec.Group.Fleet && !wished {
			t.errorf("%s is down and does not want its place", e.container.Name)
		}
		if !t.waitsForPlace(e) {
			continue
		}
		switch state := p.state(id); {
		case state.Granted, state.Unreachable && !e.spec.Group.FleetWait, !e.spec.Group.Fleet:
			t.errorf("%s waits for a place, whose state is %+v", e.container.Name, state)
		case (e.state.Health.Wait.On == "others") == state.Unreachable:
			t.errorf("%s waits for a place, by its view for %q", e.container.Name, e.state.Health.Wait.On)
		}
	}
}
