package prober

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxHold is the longest time for which a command that starts holds its place. A start
// takes about 40 ms of CPU, so one that has not ended by then waits for something, and
// must not keep others from starting within their timeout, which is often 1 s.
const maxHold = 500 * time.Millisecond

// credit is the most that a container can save: 1,500 usual starts. It also bounds for how
// long a container is remembered that is gone, where others go on to use places.
const credit = time.Minute

// forgetIdle is how long a container is remembered that asks for nothing. Where only those that come
// and go use places, nobody ever uses up credit.
const forgetIdle = time.Hour

// minSweep is how many containers are remembered without a thought.
const minSweep = 64

// places are the right to start a command. They bound how many commands an engine starts
// at once, and are shared between containers. The next one goes to the container that
// holds the fewest, among these to the one that has held places for the shortest time.
// So containers whose commands start slowly or often do not hold up the others. One that
// comes back counts as if it had used at most credit less than the busiest one: it cannot
// save up time.
type places struct {
	total int

	mu       sync.Mutex
	free     int
	arrivals uint64
	level    time.Duration         // the most that a container had used when it was served
	users    map[string]*placeUser // all others count as if they had used level - credit
	waiting  waitingUsers          // those of users that wait
	sweepAt  int                   // users are swept when there are so many
}

type placeUser struct {
	used  time.Duration
	held  int
	queue []*placeWaiter
	last  time.Time // when it last asked for a place, or gave one back
	index int       // in places.waiting, while something is in the queue
}

type placeWaiter struct {
	user    *placeUser
	arrival uint64
	granted chan *place // has room for one
}

// place is held by a command that starts.
type place struct {
	of       *places
	user     *placeUser
	since    time.Time
	expiry   *time.Timer
	returned bool // guarded by of.mu
}

func newPlaces(n int) *places {
	return &places{total: n, free: n, users: map[string]*placeUser{}}
}

// acquire waits for a place. It returns an error when ctx ends or patience is over.
func (p *places) acquire(ctx context.Context, container string, patience time.Duration) (*place, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := p.enqueue(container)
	tooLong := time.NewTimer(patience)
	defer tooLong.Stop()
	var err error
	select {
	case granted := <-w.granted:
		return granted, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-tooLong.C:
		err = fmt.Errorf("the engine is busy: it starts %d commands at a time, and this one had no turn within %v", p.total, patience)
	}
	if p.leaveQueue(w) {
		return nil, err
	}
	granted := <-w.granted // at the last moment
	if ctx.Err() != nil {
		granted.release()
		return nil, err
	}
	return granted, nil
}

func (p *places) enqueue(container string) *placeWaiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[container]
	if u == nil {
		p.sweep()
		u = &placeUser{}
		p.users[container] = u
	}
	if u.idle() {
		u.used = max(u.used, p.level-credit)
	}
	p.arrivals++
	w := &placeWaiter{user: u, arrival: p.arrivals, granted: make(chan *place, 1)}
	if u.queue = append(u.queue, w); len(u.queue) == 1 {
		heap.Push(&p.waiting, u)
	}
	u.last = time.Now()
	p.serve()
	return w
}

// leaveQueue returns false when w is no longer in the queue, because it has a place.
func (p *places) leaveQueue(w *placeWaiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(w.user.queue, w)
	if i >= 0 {
		p.dequeue(w.user, i)
	}
	return i >= 0
}

func (p *places) dequeue(u *placeUser, i int) {
	u.queue = slices.Delete(u.queue, i, i+1)
	p.moved(u)
}

// moved puts a user where it belongs among those that wait.
func (p *places) moved(u *placeUser) {
	if len(u.queue) == 0 {
		heap.Remove(&p.waiting, u.index)
		return
	}
	heap.Fix(&p.waiting, u.index)
}

// serve gives the free places to those that wait.
func (p *places) serve() {
	for p.free > 0 && len(p.waiting) > 0 {
		u := p.waiting[0]
		w := u.queue[0]
		p.free--
		p.level = max(p.level, u.used)
		u.held++
		p.dequeue(u, 0)
		granted := &place{of: p, user: u, since: time.Now()}
		granted.expiry = time.AfterFunc(maxHold, granted.release)
		w.granted <- granted
	}
}

func (u *placeUser) before(v *placeUser) bool {
	switch {
	case u.held != v.held:
		return u.held < v.held
	case u.used != v.used:
		return u.used < v.used
	}
	return u.queue[0].arrival < v.queue[0].arrival
}

func (u *placeUser) idle() bool { return u.held == 0 && len(u.queue) == 0 }

// sweep forgets the containers that could not be told from new ones if they came back, and
// those that have been idle for long.
func (p *places) sweep() {
	if len(p.users) < p.sweepAt {
		return
	}
	maps.DeleteFunc(p.users, func(_ string, u *placeUser) bool {
		return u.idle() && (u.used <= p.level-credit || time.Since(u.last) > forgetIdle)
	})
	p.sweepAt = max(minSweep, 2*len(p.users))
}

// release gives the place back. Further calls do nothing.
func (l *place) release() {
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.returned {
		return
	}
	l.returned = true
	l.expiry.Stop()
	u := l.user
	u.held--
	u.last = time.Now()
	u.used += u.last.Sub(l.since)
	if len(u.queue) > 0 {
		p.moved(u)
	}
	p.free++
	p.serve()
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
