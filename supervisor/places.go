package supervisor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// Places are the places of a fleet: in a group whose limit is over all hosts, only who holds one may be
// restarted for a failed probe. The loop calls the methods: none may block or ask anybody.
type Places interface {
	// Want asks for a place of the group for a container of this host. share says how many of the
	// group's members over all hosts may be down. The same again changes nothing.
	Want(id, group string, share core.Share)
	// Release gives the place of a container back, or ends the wait for one.
	Release(id string)
	// State says how it stands with the container's place. The loop asks just before a restart.
	State(id string) PlaceState
}

// PlaceState is the state of a place that a container wants. One that nobody wants is not granted.
type PlaceState struct {
	Granted     bool   // the place is the container's, as confirmed lately enough for a restart now
	On          string // who holds the places, for people: "h1:web-1 and 2 more"
	Unreachable bool   // the store of the places cannot be reached
}

// MaxPlaces is how many places a group has at most, whatever its share.
const MaxPlaces = 120

// PlacesChanged reports that the state of any place has changed: the containers that want one are looked at
// again. It returns ErrStopping when the loop has ended, or the error of ctx.
func (s *Supervisor) PlacesChanged(ctx context.Context) error {
	return s.send(ctx, placesChanged{})
}

type placesChanged struct{}

func (placesChanged) apply(l *loop) {
	for m := range l.guard.wanting {
		l.guard.recheckLater(m)
	}
}

// stage is which limit a container waits for.
type stage uint8

const (
	noStage stage = iota
	inGroup       // max_unavailable of its group among the members of this host
	wantsPlace
	inBudget
	inBudgetWithPlace // it holds a place, and the budget has its next restart for it
)

// placeHold is how long a container may hold a place while it waits for the budget of its host. Others of the
// fleet wait for that place. It is the default window, so that with it the first in the queue never gives
// its place back.
const placeHold = core.DefaultGuardWindow

// fleetWait returns what a restart of e, which its group's limit allows, has to wait for.
//
// The place comes last: one that was taken before the budget has room would be held by a container that goes
// down much later. While e waits for the place it uses nothing of the budget, which others may use up. Then it
// keeps the place if the next restart is its own and comes soon.
func (g *guard) fleetWait(e *entry, now time.Time) core.Wait {
	budget := g.budget.wait(e, now)
	state := g.places.State(e.container.ID)
	switch wanted := e.place.wish != nil; {
	case budget.Reason != "" && !wanted:
		e.place.next = inBudget
		return budget
	case wanted && state.Granted && (budget.Reason == "" || g.budget.soon(e, budget, now)):
		e.place.next = inBudgetWithPlace
		return budget
	case wanted && state.Granted, state.Unreachable && !e.spec.Group.FleetWait:
		e.place.next = inBudget
		return budget
	case budget.Reason != "" && !e.place.waitsForPlace(): // its wish is that of its outage
		e.place.next = inBudget
		return budget
	}
	e.place.next = wantsPlace
	switch {
	case state.Unreachable:
		return core.Wait{Reason: core.WaitGroupLimit, On: "etcd, which cannot be reached"}
	case state.On == "":
		return core.Wait{Reason: core.WaitGroupLimit, On: "a place of the fleet"}
	}
	return core.Wait{Reason: core.WaitGroupLimit, On: state.On}
}

// soon says whether the next restart that the budget allows is that of e, and near.
func (b *budget) soon(e *entry, w core.Wait, now time.Time) bool {
	return b.turns.isNext(e) && !w.Until.IsZero() && w.Until.Sub(now) <= placeHold
}

// wish is a place that the guard has asked for.
type wish struct {
	group string
	share core.Share
}

// settlePlace asks for a place of the fleet for e, or gives it back. One is wanted from the moment
// at which nothing else of this host holds the restart up to the end of the outage.
func (g *guard) settlePlace(e *entry) {
	if g.places == nil || e.place.wish == nil && (e.spec == nil || !e.spec.Group.Fleet) {
		return
	}
	var wanted *wish
	if e.spec != nil && e.spec.Group.Fleet && (e.place.waitsForPlace() || e.place.down > 0) {
		wanted = &wish{e.groupKey, e.spec.Group.MaxUnavailable}
	}
	if old := e.place.wish; old != nil && (wanted == nil || wanted.group != old.group) {
		g.places.Release(e.container.ID)
		e.place.wish = nil
	}
	if wanted != nil && (e.place.wish == nil || *e.place.wish != *wanted) {
		g.places.Want(e.container.ID, wanted.group, wanted.share)
		e.place.wish = wanted
	}
	if wanted != nil && e.place.down > 0 {
		g.placed.put(e)
	} else {
		g.placed.remove(e)
	}
}

// expire gives back the places of those whose outage has lasted as long as it may: an engine that is
// away tells nothing of them.
func (g *guard) expire(now time.Time) {
	for e := g.placed.first(); e != nil && !now.Before(e.outageEnd()); e = g.placed.first() {
		m := g.groups[e.groupKey]
		m.endOutage(e)
		g.settlePlace(e)
		g.recheckLater(m)
	}
}

// wantingInOrder returns the members that want a place of the fleet, longest wait first.
func (m *group) wantingInOrder() []*entry {
	if m.wanting.Len() == 0 {
		return nil
	}
	all := slices.Clone(m.wanting.entries)
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.place.began, b.place.began) })
	return all
}
