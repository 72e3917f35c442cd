package supervisor

import (
	"sync/atomic"

	"healthd/supervisor/core"
)

// Counts says how many of all containers are in which state.
type Counts struct {
	All        int
	Ready      int // they take traffic
	Restarting int // a stop or start is due or under way
	Held       int // by an operator
	GaveUp     int // healthd no longer restarts them
	Invalid    int // their labels are wrong
}

// tally has the Counts of a Board, so that nobody has to walk over all containers for them. The loop
// writes it, any goroutine may read it.
type tally struct{ all, ready, restarting, held, gaveUp, invalid atomic.Int64 }

// counted is what a tally counts of one container; zero: the container is gone.
type counted struct{ all, ready, restarting, held, gaveUp, invalid bool }

func countedOf(v *core.View) counted {
	s := &v.State
	return counted{
		all:   true,
		ready: v.Spec != nil && s.Conditions.Ready.Status,
		restarting: !s.Action.GaveUp &&
			(s.Action.Stopping != core.NoCause || s.Action.Restart != core.NoCause || s.Action.Call != core.NoCall),
		held:    s.Lasting.Held(),
		gaveUp:  s.Action.GaveUp,
		invalid: v.Invalid != "",
	}
}

// move counts a container that was one thing and is now another.
func (t *tally) move(from, to counted) {
	if from == to {
		return
	}
	move(&t.all, from.all, to.all)
	move(&t.ready, from.ready, to.ready)
	move(&t.restarting, from.restarting, to.restarting)
	move(&t.held, from.held, to.held)
	move(&t.gaveUp, from.gaveUp, to.gaveUp)
	move(&t.invalid, from.invalid, to.invalid)
}

func move(n *atomic.Int64, from, to bool) {
	switch {
	case to && !from:
		n.Add(1)
	case from && !to:
		n.Add(-1)
	}
}

// count counts a container anew.
func (b *Board) count(s *slot, as counted) {
	b.tally.move(s.counted, as)
	s.counted = as
}

// Counts returns how many containers are in which state. While the loop changes them, the numbers may be
// of two moments.
func (b *Board) Counts() Counts {
	t := &b.tally
	return Counts{
		All: int(t.all.Load()), Ready: int(t.ready.Load()), Restarting: int(t.restarting.Load()),
		Held: int(t.held.Load()), GaveUp: int(t.gaveUp.Load()), Invalid: int(t.invalid.Load()),
	}
}
