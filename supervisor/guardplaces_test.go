package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// gamePlaces is the Places of a host whose fleet is played: others of it take places and give them back,
// grants come late, are not confirmed for a while, or are lost, and the store cannot be reached.
type gamePlaces struct {
	g      *guardGame
	wished map[string]wish // by container ID
	order  []string        // of those in wished, longest wait first
	held   map[string]string
	others map[string]int // places that the rest of the fleet holds, by group
	stale  bool           // what is held is not confirmed lately enough
	away   bool           // the store cannot be reached
}

func newGamePlaces(g *guardGame) *gamePlaces {
	return &gamePlaces{g: g, wished: make(map[string]wish), held: make(map[string]string), others: make(map[string]int)}
}

// forget has the next daemon begin anew. The places that the last one held are still the host's.
func (p *gamePlaces) forget() {
	clear(p.wished)
	p.order, p.stale = nil, false
}

func (p *gamePlaces) Want(id, group string, share core.Share) {
	if _, ok := p.wished[id]; !ok {
		p.order = append(p.order, id)
	}
	if held, ok := p.held[id]; ok && held != group {
		p.g.errorf("%s wants a place of %s and holds one of %s", id, group, held)
	}
	p.wished[id] = wish{group, share}
}

func (p *gamePlaces) Release(id string) {
	if _, ok := p.wished[id]; !ok {
		p.g.errorf("%s gives back what it has not wanted", id)
	}
	delete(p.wished, id)
	delete(p.held, id)
	p.order = slices.DeleteFunc(p.order, func(other string) bool { return other == id })
}

func (p *gamePlaces) State(id string) PlaceState {
	_, held := p.held[id]
	return PlaceState{Granted: held && !p.stale && p.wished[id].group != "", Unreachable: p.away, On: "others"}
}

// placesOf is how many places a group has over the fleet.
const placesOf = 2

func (p *gamePlaces) free(group string) bool {
	n := p.others[group]
	for _, of := range p.held {
		if of == group {
			n++
		}
	}
	return n < placesOf
}

// grant gives free places to those that have wanted them longest. What the last daemon held and nobody wants is
// given back.
func (p *gamePlaces) grant() {
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
func (p *gamePlaces) play(*entry) {
	group := fmt.Sprint(p.g.r.IntN(3))
	switch p.g.r.IntN(8) {
	case 0:
		p.stale = !p.stale
	case 1:
		p.away = !p.away
		p.stale = p.stale || p.away && p.g.r.IntN(2) == 0
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
	p.g.l.handle(placesChanged{})
}

// checkPlaces checks who wants a place, and who waits for one, when there is nothing left to do.
func (m *guardModel) checkPlaces() {
	p := m.g.places
	for _, id := range slices.Sorted(maps.Keys(p.wished)) {
		e := m.g.l.entries[id]
		switch {
		case e == nil || !e.spec.Group.Fleet || p.wished[id] != wish{m.groupOf(id), e.spec.Group.MaxUnavailable}:
			m.errorf("%s wants a place as %+v", id, p.wished[id])
		case m.down(e), waitsFor(e, core.WaitGroupLimit):
		case !waitsFor(e, core.WaitRestartBudget) || time.Until(e.state.Health.Wait.Until) > placeHold:
			m.errorf("%s wants a place, is not down, and waits for %+v", e.container.Name, e.state.Health.Wait)
		}
	}
	for _, id := range m.g.present {
		e := m.g.l.entries[id]
		if _, wished := p.wished[id]; m.down(e) && e.spec.Group.Fleet && !wished {
			m.errorf("%s is down and does not want its place", e.container.Name)
		}
		if !m.waitsForPlace(e) {
			continue
		}
		switch state := p.State(id); {
		case state.Granted, state.Unreachable && !e.spec.Group.FleetWait, !e.spec.Group.Fleet:
			m.errorf("%s waits for a place, whose state is %+v", e.container.Name, state)
		case (e.state.Health.Wait.On == "others") == state.Unreachable:
			m.errorf("%s waits for a place, by its view for %q", e.container.Name, e.state.Health.Wait.On)
		}
	}
}

// waitsForPlace says whether a container waits for the fleet only.
func (m *guardModel) waitsForPlace(e *entry) bool {
	return waitsFor(e, core.WaitGroupLimit) && e.place.stage == wantsPlace
}

// waitsForGroup says whether a container waits for the members of its group on this host.
func (m *guardModel) waitsForGroup(e *entry) bool {
	return waitsFor(e, core.WaitGroupLimit) && e.place.stage != wantsPlace
}
