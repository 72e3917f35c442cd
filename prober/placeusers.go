package prober

import (
	"maps"
	"time"
)

// forgetIdle is how long a container is remembered that asks for nothing.
const forgetIdle = time.Hour

const (
	// minSweep is how many containers are remembered without a thought.
	minSweep = 64
	// maxIdle is how many are remembered, with those that ask, before all are forgotten that ask for nothing.
	maxIdle = 32768
)

// placeUser is a container that wants places, or wanted one a while ago.
type placeUser struct {
	used  float64 // seconds
	takes float64 // seconds for which it held its last place; 0: it had none yet
	rank  uint64  // among those with as much: the least is first
	held  int
	queue []*placeWaiter
	vain  bool      // it has asked since its last turn, and stopped waiting
	last  time.Time // when it last asked for a place, or gave one back
	index int       // in places.waiting, while something is in the queue
}

func (u *placeUser) before(v *placeUser) bool {
	switch {
	case u.held != v.held:
		return u.held < v.held
	case u.due() != v.due():
		return u.due() < v.due()
	}
	return u.rank < v.rank
}

// due is what it will have used after its turn.
func (u *placeUser) due() float64 { return u.used + u.takes }

func (u *placeUser) idle() bool { return u.held == 0 && len(u.queue) == 0 }

// sweep forgets containers that have asked for nothing for long. Those that come back are new ones.
func (p *places) sweep(now time.Time) {
	if len(p.users) < p.sweepAt {
		return
	}
	keep := forgetIdle
	if len(p.users) > maxIdle {
		keep = 0
	}
	maps.DeleteFunc(p.users, func(_ string, u *placeUser) bool { return u.idle() && now.Sub(u.last) >= keep })
	p.sweepAt = max(minSweep, 2*len(p.users))
	if len(p.users) <= maxIdle {
		p.sweepAt = min(p.sweepAt, maxIdle+1)
	}
}

// waitingUsers are a heap: the turn is that of the first one. None has an empty queue.
type waitingUsers []*placeUser

// Len, Less, Swap, Push and Pop are for container/heap.
func (h waitingUsers) Len() int           { return len(h) }
func (h waitingUsers) Less(i, j int) bool { return h[i].before(h[j]) }

func (h waitingUsers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is heap.Push's.
func (h *waitingUsers) Push(x any) {
	u := x.(*placeUser)
	u.index = len(*h)
	*h = append(*h, u)
}

// Pop is heap.Pop's.
func (h *waitingUsers) Pop() any {
	last := len(*h) - 1
	u := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return u
}
