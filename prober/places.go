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

// maxHold is how long a command that starts may hold its place, unless all take longer. A start
// takes about 40 ms of CPU, so one that has not ended by then waits for something, and must not
// keep others from starting within their timeout, which is often 1 s.
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
//
// A place is taken from a start that takes much longer than one that ended meanwhile: the first
// one hangs. When none ends, either all hang or the engine is slow. Then one more may begin each
// maxHold. If it ends, the others hang. If not, the engine is slow, and few more were asked of it.
type places struct {
	total int

	mu       sync.Mutex
	held     []*place    // the oldest first
	moved    time.Time   // when a place was last given, or a command had started
	stalled  *time.Timer // looks after maxHold whether one more may begin
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
	returned bool // by its owner; guarded by of.mu
}

func newPlaces(n int) *places {
	return &places{total: n, users: map[string]*placeUser{}}
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
	p.sort(u)
}

// sort puts a user that has waited where it belongs.
func (p *places) sort(u *placeUser) {
	if len(u.queue) == 0 {
		heap.Remove(&p.waiting, u.index)
		return
	}
	heap.Fix(&p.waiting, u.index)
}

// serve gives the free places to those that wait.
func (p *places) serve() {
	now := time.Now()
	for len(p.waiting) > 0 {
		if len(p.held) == p.total {
			if wait := maxHold - now.Sub(p.moved); wait > 0 {
				p.serveAfter(wait)
				return
			}
			p.take(p.held[0], now)
		}
		u := p.waiting[0]
		w := u.queue[0]
		p.level = max(p.level, u.used)
		u.held++
		p.dequeue(u, 0)
		granted := &place{of: p, user: u, since: now}
		p.held, p.moved = append(p.held, granted), now
		w.granted <- granted
	}
}

func (p *places) serveAfter(wait time.Duration) {
	if p.stalled != nil {
		p.stalled.Reset(wait)
		return
	}
	p.stalled = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serve()
	})
}

// take takes the place back, if that was not done yet.
func (p *places) take(l *place, now time.Time) {
	i := slices.Index(p.held, l)
	if i < 0 {
		return
	}
	p.held = slices.Delete(p.held, i, i+1)
	u := l.user
	u.held--
	u.last = now
	u.used += now.Sub(l.since)
	if len(u.queue) > 0 {
		p.sort(u)
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

// release gives the place back of a command that did not start. After it or started, further calls
// of both do nothing.
func (l *place) release() {
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(l, time.Now())
}

// started is release for a command that has started.
func (l *place) started() {
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.returned {
		return
	}
	now := time.Now()
	p.moved = now
	for slow := max(maxHold, 2*now.Sub(l.since)); len(p.held) > 0 && now.Sub(p.held[0].since) > slow; {
		p.take(p.held[0], now)
	}
	p.release(l, now)
}

func (p *places) release(l *place, now time.Time) {
	if l.returned {
		return
	}
	l.returned = true
	p.take(l, now)
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
