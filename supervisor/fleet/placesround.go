package fleet

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// run takes places and gives them back until ctx ends.
func (p *places) run(ctx context.Context, s Supervisor) {
	p.mu.Lock()
	p.begun = time.Now()
	p.mu.Unlock()
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.tell:
				_ = s.PlacesChanged(ctx) // the loop looks each second, too
			}
		}
	})
	for ctx.Err() == nil {
		next := p.round(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(next):
		case <-p.wake:
			if p.crowded() {
				sleep(ctx, rand.N(placesSpread))
			}
		}
	}
}

// crowded says whether somebody waits for a place that others may want as well.
func (p *places) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wants {
		if !w.has && len(p.spots[w.group]) > 0 {
			return true
		}
	}
	return false
}

// round makes the calls that are due, and returns the time until the next one.
func (p *places) round(ctx context.Context) time.Duration {
	p.mu.Lock()
	if p.synced.IsZero() && p.board.Synced() {
		p.synced = time.Now()
	}
	back, waiting, wanted := p.settleLocked(), p.waitingLocked(), len(p.wants) > 0
	p.mu.Unlock()
	var err error
	if h, ok := p.f.lease.now(); wanted && (!ok || !h.claimed || time.Since(h.renewed) > p.f.config.TTL/3+renewWithin) {
		err = errNoLease
	} else {
		err = p.work(ctx, back, waiting, h)
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.failing = time.Time{}
	case p.failing.IsZero():
		p.failing = now
	}
	left := p.settleLocked()
	if p.settledLocked(now) {
		clear(p.ours)
	}
	shown := placesShown{fresh: p.fresh(now), away: p.awayLocked(now)}
	for _, w := range p.wants {
		if w.has {
			shown.held++
		}
	}
	if shown != p.shown {
		p.shown = shown
		signal(p.tell)
	}
	switch {
	case err != nil:
		return placesAgain
	case shown.held > 0 && !shown.fresh:
		return placesStale
	case len(left) > 0 || len(p.wants) > 0:
		return placesLook - rand.N(placesLook/2)
	case !p.settledLocked(now):
		return time.Second
	}
	return time.Hour
}

// waitingLocked returns those who want a place and have none, longest wait first.
func (p *places) waitingLocked() (all []want) {
	for _, w := range p.wants {
		if !w.has {
			all = append(all, *w)
		}
	}
	slices.SortFunc(all, func(a, b want) int { return cmp.Compare(a.order, b.order) })
	return all
}

// work gives places back and takes others, up to the first error.
func (p *places) work(ctx context.Context, back []key, waiting []want, h held) error {
	for _, k := range back {
		if err := p.giveBack(ctx, k); err != nil {
			return err
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	members := p.membersOf()
	for i := range waiting {
		w := &waiting[i]
		k := p.room(w.group, min(w.share.Of(max(1, members[w.group])), maxPlaces))
		if k == 0 {
			continue
		}
		if err := p.take(ctx, w, k, h); err != nil {
			return err
		}
	}
	return nil
}

var errNoLease = errors.New("this host has no lease, or not its name")

// room is how many of the first places of a group may be taken, if k may be held, as far as is known.
func (p *places) room(group string, k int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return roomAmong(p.spots[group], k)
}

// roomAmong is room. Together with those that are held beyond them they are k at most: some may be, from when there were more
// members, and of several hosts that see one more allowed each may take another one.
func roomAmong(spots map[int]spot, k int) int {
	var held []int
	for n, s := range spots {
		if !s.free {
			held = append(held, n)
		}
	}
	if len(held) >= k {
		return 0
	}
	beyond := func(m int) (n int) {
		for _, at := range held {
			if at >= m {
				n++
			}
		}
		return n
	}
	m := k
	for m+beyond(m) > k {
		m--
	}
	return m
}

// membersOf returns how many members each group has over all hosts.
func (p *places) membersOf() map[string]int {
	members := map[string]int{}
	for m := range p.board.AllMembers() {
		members[groupName(m.Group)]++
	}
	return members
}

// take takes the first free of k places, if there is one.
func (p *places) take(ctx context.Context, w *want, k int, h held) error {
	value := placeValue{Host: p.f.config.Host, Instance: p.f.self.instance(), ID: w.id}
	if v := p.board.ByID(w.id); v != nil {
		value.Run = v.State.Run.ID.Started
	}
	text, err := encode(value)
	if err != nil {
		return err
	}
	got, revision := -1, int64(0)
	err = p.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		isFree, put, others := p.firstFree(w.group, text, k, h.id)
		answer, err := c.Txn(ctx).If(isFree...).Then(put...).Else(others...).Commit()
		if err == nil {
			got, revision = tookOf(answer), answer.Header.Revision
		}
		return err
	})
	if err != nil {
		if classOf(err) == noLease {
			p.f.lease.lost(h.id)
		}
		return err
	}
	if got >= 0 {
		p.f.metrics.writes.Inc()
		p.mu.Lock()
		p.setLocked(w.group, got, spot{rev: revision, lease: int64(h.id), text: text, value: value})
		p.mu.Unlock()
	}
	return nil
}

// firstFree returns a transaction: if the first place is free, take it, else the same with the second one, and so on.
func (p *places) firstFree(group, text string, k int, lease clientv3.LeaseID) (isFree []clientv3.Cmp, put, others []clientv3.Op) {
	for n := k - 1; n >= 0; n-- {
		if put != nil {
			others = []clientv3.Op{clientv3.OpTxn(isFree, put, others)}
		}
		name := p.f.base + key{kind: placeKey, group: group, n: n}.String()
		isFree = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(name), "=", 0)}
		put = []clientv3.Op{clientv3.OpPut(name, text, clientv3.WithLease(lease))}
	}
	return isFree, put, others
}

// tookOf returns the number of the place that was taken; -1: none was free.
func tookOf(answer *clientv3.TxnResponse) int {
	for n := 0; ; n++ {
		if answer.Succeeded {
			return n
		}
		if len(answer.Responses) == 0 || answer.Responses[0].GetResponseTxn() == nil {
			return -1
		}
		answer = (*clientv3.TxnResponse)(answer.Responses[0].GetResponseTxn())
	}
}

// giveBack gives a place back, unless somebody else has it by now.
func (p *places) giveBack(ctx context.Context, k key) error {
	s, ok := p.leave(k)
	if !ok {
		return nil
	}
	name := p.f.base + k.String()
	return p.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value(name), "=", s.text), clientv3.Compare(clientv3.ModRevision(name), "=", s.rev)).
			Then(clientv3.OpDelete(name)).Commit()
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case answer.Succeeded:
			p.f.metrics.writes.Inc()
			p.setLocked(k.group, k.n, spot{free: true, rev: answer.Header.Revision})
		case p.spots[k.group][k.n] == s: // it was not ours any more: the watch tells whose it is
			delete(p.spots[k.group], k.n)
		}
		return nil
	})
}

// leave has nobody count on a place any more. It returns false if somebody wants it again.
func (p *places) leave(k key) (spot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.settleLocked(), k) {
		return spot{}, false
	}
	s := p.spots[k.group][k.n]
	s.leaving = true
	p.spots[k.group][k.n] = s
	return s, true
}
