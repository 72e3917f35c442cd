package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"healthd/supervisor/core"
)

// fleetStore is the store of a fleet in memory: places under leases, which end when nobody renews them.
type fleetStore struct {
	mu     sync.Mutex
	k      int // places of a group
	ttl    time.Duration
	leases map[int]time.Time // the end of each
	newest int
	taken  map[string][]fleetPlace // by group
}

type fleetPlace struct {
	lease    int
	host, id string
}

var errLeaseNotFound = errors.New("requested lease not found")

func newFleetStore(k int, ttl time.Duration) *fleetStore {
	return &fleetStore{k: k, ttl: ttl, leases: make(map[int]time.Time), taken: make(map[string][]fleetPlace)}
}

func (s *fleetStore) aliveLocked(lease int) bool { return time.Now().Before(s.leases[lease]) }

func (s *fleetStore) alive(lease int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aliveLocked(lease)
}

// renew renews a lease, or grants a new one: 0 is none.
func (s *fleetStore) renew(lease int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case lease == 0:
		s.newest++
		lease = s.newest
	case !s.aliveLocked(lease):
		return 0, errLeaseNotFound
	}
	s.leases[lease] = time.Now().Add(s.ttl)
	return lease, nil
}

// take takes a place, unless all are taken. One that the container has already is kept.
func (s *fleetStore) take(group string, p fleetPlace) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aliveLocked(p.lease) {
		return false, errLeaseNotFound
	}
	taken := slices.DeleteFunc(s.taken[group], func(o fleetPlace) bool { return !s.aliveLocked(o.lease) })
	got := slices.Contains(taken, p)
	if !got && len(taken) < s.k {
		taken, got = append(taken, p), true
	}
	s.taken[group] = taken
	return got, nil
}

func (s *fleetStore) release(group, host, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[group] = slices.DeleteFunc(s.taken[group], func(o fleetPlace) bool { return o.host == host && o.id == id })
}

// leftOf returns what a host holds, by container ID.
func (s *fleetStore) leftOf(host string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make(map[string]string)
	for group, places := range s.taken {
		for _, p := range places {
			if p.host == host {
				left[p.id] = group
			}
		}
	}
	return left
}

// fleetClient is the Places of one daemon.
type fleetClient struct {
	host    *fleetSimHost
	changed func() // tells the daemon
	wake    chan struct{}
	r       *rand.Rand // of run

	pausedUntil atomic.Int64 // with the whole daemon

	mu        sync.Mutex
	wished    map[string]wish // by container ID
	order     []string        // of those in wished, longest wait first
	granted   map[string]bool
	back      map[string]string // to give back: the groups by container ID
	renewedAt time.Time
	failing   time.Time // since when no call has come through; zero: the last one has
}

func (c *fleetClient) Want(id, group string, share core.Share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.wished[id]; !ok {
		c.order = append(c.order, id)
	}
	c.wished[id] = wish{group, share}
	if c.back[id] == group {
		delete(c.back, id)
	}
	c.wakeUp()
}

func (c *fleetClient) Release(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back[id] = c.wished[id].group
	delete(c.wished, id)
	delete(c.granted, id)
	c.order = slices.DeleteFunc(c.order, func(other string) bool { return other == id })
	c.wakeUp()
}

func (c *fleetClient) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *fleetClient) State(id string) PlaceState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return PlaceState{
		Granted:     c.granted[id] && time.Since(c.renewedAt) < c.host.sim.store.ttl/2,
		Unreachable: !c.failing.IsZero() && time.Since(c.failing) > 3*time.Second,
	}
}

func (c *fleetClient) paused() bool { return time.Now().UnixNano() < c.pausedUntil.Load() }

// run keeps the lease, takes places and gives them back until ctx ends.
func (c *fleetClient) run(ctx context.Context) {
	r := c.r
	begun, settled := time.Now(), false
	for ctx.Err() == nil {
		before := c.summary()
		c.turn(ctx, r)
		if !settled && time.Since(begun) > 3*time.Second { // the daemon has listed its containers
			settled = true
			c.giveBackLeft()
		}
		if c.summary() != before {
			c.changed()
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-time.After(500*time.Millisecond + time.Duration(r.IntN(500))*time.Millisecond):
		}
	}
}

type clientSummary struct {
	granted            int
	fresh, unreachable bool
}

func (c *fleetClient) summary() clientSummary {
	state := c.State("")
	c.mu.Lock()
	defer c.mu.Unlock()
	return clientSummary{len(c.granted), time.Since(c.renewedAt) < c.host.sim.store.ttl/2, state.Unreachable}
}

func (c *fleetClient) giveBackLeft() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, group := range c.host.sim.store.leftOf(c.host.name) {
		if c.wished[id].group != group {
			c.back[id] = group
		}
	}
}

// turn makes the calls that are due.
func (c *fleetClient) turn(ctx context.Context, r *rand.Rand) {
	store := c.host.sim.store
	c.mu.Lock()
	due := time.Since(c.renewedAt) > store.ttl/3
	order, back := slices.Clone(c.order), c.back
	c.back = make(map[string]string)
	c.mu.Unlock()
	if due {
		began := time.Now()
		c.call(ctx, r, func() error {
			lease, err := store.renew(int(c.host.lease.Load()))
			c.host.lease.Store(int64(lease))
			return err
		}, func() { c.renewedAt = began })
	}
	for id, group := range back {
		if !c.call(ctx, r, func() error { store.release(group, c.host.name, id); return nil }, func() {}) {
			c.mu.Lock()
			if c.wished[id].group != group {
				c.back[id] = group
			}
			c.mu.Unlock()
		}
	}
	for _, id := range order {
		c.mu.Lock()
		w, wished := c.wished[id]
		granted := c.granted[id]
		c.mu.Unlock()
		if !wished || granted || c.host.lease.Load() == 0 {
			continue
		}
		got := false
		c.call(ctx, r, func() (err error) {
			got, err = store.take(w.group, fleetPlace{int(c.host.lease.Load()), c.host.name, id})
			return err
		}, func() {
			if _, still := c.wished[id]; got && still {
				c.granted[id] = true
			} else if got {
				c.back[id] = w.group
			}
		})
	}
}

// call makes a call to the store: its answer may be late, or lost after the store has done it.
func (c *fleetClient) call(ctx context.Context, r *rand.Rand, do func() error, then func()) bool {
	most := 20 * time.Millisecond
	if c.host.slow.Load() {
		most = 2500 * time.Millisecond
	}
	pause := func() bool {
		select {
		case <-time.After(1 + time.Duration(r.Int64N(int64(most)))):
		case <-ctx.Done():
		}
		time.Sleep(time.Until(time.Unix(0, c.pausedUntil.Load())))
		return ctx.Err() == nil && !c.host.cut.Load()
	}
	began, through := time.Now(), pause()
	var err error
	if through {
		err = do()
		through = pause()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !through {
		if c.failing.IsZero() {
			c.failing = began
		}
		return false
	}
	c.failing = time.Time{}
	if errors.Is(err, errLeaseNotFound) {
		clear(c.granted)
		c.host.lease.Store(0)
		c.renewedAt = time.Time{}
	}
	if err == nil {
		then()
	}
	return err == nil
}
