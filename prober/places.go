package prober

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxHold is how long a command that starts may hold its place, unless all take longer. A start
// takes about 40 ms of CPU, so one that has not ended by then waits for something, and must not
// keep others from starting within their timeout, which is often 1 s.
const maxHold = 500 * time.Millisecond

// maxDebt is how much more than its share a container may have used, in seconds. More is forgotten: an hour in which its
// starts hung must not keep it from having turns for as long.
const maxDebt = float64(maxHold) / float64(time.Second)

// places are the right to start a command. They bound how many commands an engine starts at once, and the containers that
// ask share them evenly, by fair queueing.
//
// share is the place time that a container would have had by now if it had always asked: while somebody waits, it
// grows by the number of places each second, divided by the number of containers that wait or hold one. (Were it the least
// that anybody has used, as in the simplest kind of fair queueing, it would stand still while ever new containers
// come, and the others would wait for ever.) used is what a container had, on the same scale, also only of times when
// somebody waited. A new one begins with the share of now, one that comes back with no more than a usual start less:
// nobody saves up time.
//
// The next place goes to the container that holds the fewest, among these to the one that will have used least after its
// turn, if that takes as long as its last one. So containers whose commands start slowly or often do not hold up the others.
// One that has asked in vain keeps its rank until it has a turn.
//
// No container waits for ever, whoever comes and goes: one that holds no place has one within n*(3*maxDebt+h)/total
// seconds, where n containers ask meanwhile, and each holds a place for up to h. For it ranks by at most share+2*maxDebt,
// and share grows by total/n each second. Once share has grown by 3*maxDebt, whoever comes, or has had a turn, ranks behind it.
//
// A place is taken from a start that takes much longer than one that ended meanwhile: the first
// one hangs. When none ends, either all hang or the engine is slow. Then one more may begin each
// maxHold. If it ends, the others hang. If not, the engine is slow, and few more were asked of it.
type places struct {
	total int

	mu        sync.Mutex
	held      []*place      // the oldest first
	moved     time.Time     // when a place was last given, or a command had started
	stalled   *time.Timer   // looks after maxHold whether one more may begin
	counted   time.Time     // until when share and contended are counted
	share     float64       // seconds
	contended time.Duration // for how long somebody has waited, in all
	usual     float64       // seconds for which the last ones held a place, on average
	ranks     uint64        // given so far
	users     map[string]*placeUser
	waiting   waitingUsers // those of users that wait
	sweepAt   int          // users are swept when there are so many
}

type placeWaiter struct {
	user    *placeUser
	granted chan *place // has room for one
}

// place is held by a command that starts.
type place struct {
	of       *places
	user     *placeUser
	since    time.Time
	before   time.Duration // of.contended, when it was given
	returned bool          // by its owner; guarded by of.mu
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
	now := time.Now()
	p.count(now)
	u := p.users[container]
	if u == nil {
		p.sweep(now)
		u = &placeUser{used: p.share}
		p.users[container] = u
	}
	if u.idle() && !u.vain {
		u.used = max(u.used, p.share-p.usual)
		p.rankLast(u)
	}
	w := &placeWaiter{user: u, granted: make(chan *place, 1)}
	if u.queue = append(u.queue, w); len(u.queue) == 1 {
		heap.Push(&p.waiting, u)
	}
	u.last = now
	p.serve(now)
	return w
}

// count counts the time since it was last called. It comes before any change of who waits or holds a place.
func (p *places) count(now time.Time) {
	if len(p.waiting) > 0 {
		passed := now.Sub(p.counted)
		p.contended += passed
		p.share += passed.Seconds() * float64(len(p.held)) / float64(len(p.held)+len(p.waiting))
	}
	p.counted = now
}

// rankLast puts a container behind all others with as much.
func (p *places) rankLast(u *placeUser) {
	p.ranks++
	u.rank = p.ranks
}

// leaveQueue returns false when w is no longer in the queue, because it has a place.
func (p *places) leaveQueue(w *placeWaiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(w.user.queue, w)
	if i < 0 {
		return false
	}
	p.count(time.Now())
	w.user.vain = true
	p.dequeue(w.user, i)
	return true
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
func (p *places) serve(now time.Time) {
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
		u.held++
		u.vain = false
		p.dequeue(u, 0)
		granted := &place{of: p, user: u, since: now, before: p.contended}
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
		now := time.Now()
		p.count(now)
		p.serve(now)
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
	u.used += (p.contended - l.before).Seconds()
	u.used = min(max(u.used, p.share-p.usual), p.share+maxDebt)
	u.takes = min(now.Sub(l.since), maxHold).Seconds()
	p.usual += (u.takes - p.usual) / 32
	p.rankLast(u)
	if len(u.queue) > 0 {
		p.sort(u)
	}
}

// release gives the place back of a command that did not start. After it or started, further calls
// of both do nothing.
func (l *place) release() {
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.count(now)
	p.release(l, now)
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
	p.count(now)
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
	p.serve(now)
}
