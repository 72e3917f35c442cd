package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/runtime"
	"healthd/supervisor"
)

// Hold is a hold of a service on all hosts.
type Hold struct {
	Service string
	By      string // the host on which somebody asked for it
	Since   time.Time
	For     string // a duration; empty: until a Resume
}

// ErrNoHold is why a hold cannot be ended: there is none.
var ErrNoHold = errors.New("the service is not held on all hosts")

// holdAgain is when containers that could not be held are tried again.
const holdAgain = time.Second

// holds carries out the holds of the store on this host: a hold of a service holds each of its containers here once, new ones
// when they come, and its end resumes just these. So who resumes one container here is not overruled. Which were
// held outlives the daemon: a hold may end while it is away.
type holds struct {
	f      *Fleet
	wake   chan struct{} // has room for one
	mu     sync.Mutex
	listed bool // all holds are known
	now    map[string]holdValue
}

func newHolds(f *Fleet) *holds {
	return &holds{f: f, wake: make(chan struct{}, 1), now: map[string]holdValue{}}
}

// told takes in what the store has.
func (h *holds) told(records []record, list bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer signal(h.wake)
	if list {
		h.listed, h.now = true, map[string]holdValue{}
	}
	for i := range records {
		r := &records[i]
		k, err := parseKey(r.name)
		if err != nil || k.kind != holdKey {
			continue
		}
		v, err := decodeHold(r.value)
		switch {
		case r.deleted:
			delete(h.now, k.service)
		case err == nil:
			h.now[k.service] = v
		}
	}
}

// known returns the services that are held; false: nobody knows yet.
func (h *holds) known() (map[string]holdValue, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.now), h.listed
}

// run holds and resumes until ctx ends.
func (h *holds) run(ctx context.Context, s Supervisor) {
	board := s.Board()
	for {
		changed := board.ChangedHere()
		var again <-chan time.Time
		if now, listed := h.known(); listed && !h.settle(ctx, s, board, now) {
			again = time.After(holdAgain)
		}
		if len(h.f.self.held()) == 0 && !h.any() {
			changed = nil // nobody is held: containers may come and go
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if !sleep(ctx, holdAgain/5) {
				return
			}
		case <-h.wake:
		case <-again:
		}
	}
}

func (h *holds) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.now) > 0
}

// settle holds who is to be held, and resumes who was. It says whether all of that was done.
func (h *holds) settle(ctx context.Context, s Supervisor, board *supervisor.Board, now map[string]holdValue) bool {
	was, done := h.f.self.held(), true
	is := map[string][]string{}
	for v := range board.All() {
		id, service := v.Container.ID, v.Service
		_, held := now[service]
		switch {
		case service == "":
		case slices.Contains(was[service], id) && held:
			is[service] = append(is[service], id)
		case held:
			if err := s.Hold(ctx, runtime.IDPrefix+id, time.Time{}); err == nil {
				is[service] = append(is[service], id)
			} else if !errors.Is(err, supervisor.ErrUnknownContainer) {
				done = false
			}
		}
	}
	for service, ids := range was {
		if _, held := now[service]; held {
			if !board.Synced() { // who is not known yet was held all the same
				is[service] = union(is[service], ids)
			}
			continue
		}
		for _, id := range ids {
			if err := s.Resume(ctx, runtime.IDPrefix+id); err != nil && (!errors.Is(err, supervisor.ErrUnknownContainer) || !board.Synced()) {
				is[service], done = append(is[service], id), false
			}
		}
	}
	h.f.self.setHeld(is)
	return done
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Hold holds a service on all hosts for so long; 0: until a Resume. A second hold replaces the first. The error says why etcd
// has not taken it; after context.DeadlineExceeded it may have.
func (f *Fleet) Hold(ctx context.Context, service string, d time.Duration) error {
	value := holdValue{By: f.config.Host, Since: time.Now().UTC().Truncate(time.Second)}
	if d > 0 {
		value.For = d.String()
	}
	k := key{kind: holdKey, service: service}
	text, err := encode(value)
	if err = errors.Join(err, k.check()); err != nil {
		return err
	}
	return f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		var options []clientv3.OpOption
		if d > 0 { // etcd ends it, by its own clock
			lease, err := c.Grant(ctx, int64((d+time.Second-1)/time.Second))
			if err != nil {
				return err
			}
			options = append(options, clientv3.WithLease(lease.ID))
		}
		_, err := c.Put(ctx, f.base+k.String(), text, options...)
		return err
	})
}

// Resume ends the hold of a service on all hosts. It returns ErrNoHold when there is none.
func (f *Fleet) Resume(ctx context.Context, service string) error {
	k := key{kind: holdKey, service: service}
	if err := k.check(); err != nil {
		return err
	}
	return f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Delete(ctx, f.base+k.String())
		if err == nil && answer.Deleted == 0 {
			err = ErrNoHold
		}
		return err
	})
}

// Holds returns the services that are held on all hosts, sorted by name.
func (f *Fleet) Holds() []Hold {
	now, _ := f.holds.known()
	var all []Hold
	for service, v := range now {
		all = append(all, Hold{service, v.By, v.Since, v.For})
	}
	slices.SortFunc(all, func(a, b Hold) int { return strings.Compare(a.Service, b.Service) })
	return all
}
