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

const (
	holdAgain = time.Second // after something that failed
	holdRest  = 200 * time.Millisecond
)

// holds tells this host's supervisor which hold of the store each of its containers has. The supervisor keeps that with
// the container, apart from what people hold: a local resume ends the hold of one container, until there is another
// hold. What it keeps outlives the daemon, so a hold that ends while it is away ends when the store is read.
type holds struct {
	f      *Fleet
	wake   chan struct{} // has room for one
	mu     sync.Mutex
	listed bool // all holds are known
	now    map[string]holdValue
	since  map[string]time.Time // when this daemon has seen each first
	// missing are those that a store lacks that went back: they hold on until somebody has written them again.
	missing map[string]holdValue
}

func newHolds(f *Fleet) *holds {
	return &holds{
		f: f, wake: make(chan struct{}, 1), now: map[string]holdValue{}, since: map[string]time.Time{}, missing: map[string]holdValue{},
	}
}

// told takes in what the store has.
func (h *holds) told(records []record, list bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.now
	if list {
		h.listed, h.now = true, maps.Clone(h.missing)
		signal(h.wake)
	}
	for i := range records {
		r := &records[i]
		k, err := parseKey(r.name)
		if err != nil || k.kind != holdKey {
			continue
		}
		signal(h.wake)
		v, err := decodeHold(r.value)
		switch {
		case r.deleted:
			h.ended(k.service)
		case err == nil:
			if old, ok := before[k.service]; ok && old != v {
				delete(h.since, k.service) // another hold begins now
			}
			h.now[k.service] = v
			delete(h.missing, k.service)
		}
	}
	h.note(time.Now())
}

// ended forgets a hold.
func (h *holds) ended(service string) {
	delete(h.now, service)
	delete(h.missing, service)
}

// note remembers since when each hold is known.
func (h *holds) note(now time.Time) {
	maps.DeleteFunc(h.since, func(service string, _ time.Time) bool { _, ok := h.now[service]; return !ok })
	for service := range h.now {
		if _, ok := h.since[service]; !ok {
			h.since[service] = now
		}
	}
}

// wentBack takes in that the next list is of a store that went back: a hold that it lacks was ended by nobody.
func (h *holds) wentBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missing = maps.Clone(h.now)
}

// rewrite writes again what a store lacks that went back. It says whether all of that is done.
func (h *holds) rewrite(ctx context.Context) bool {
	h.mu.Lock()
	missing, since := maps.Clone(h.missing), maps.Clone(h.since)
	h.mu.Unlock()
	done := true
	for service, v := range missing {
		left := time.Duration(0)
		if v.For != "" {
			whole, _ := time.ParseDuration(v.For) // it was checked when it was read
			if left = whole - time.Since(since[service]); left <= 0 {
				h.mu.Lock()
				h.ended(service)
				h.mu.Unlock()
				continue
			}
		}
		if h.f.putHold(ctx, service, v, left, clientv3.Compare(clientv3.CreateRevision(h.f.holdName(service)), "=", 0)) != nil {
			done = false
			continue
		}
		h.mu.Lock()
		delete(h.missing, service) // it is there, or another one is
		h.mu.Unlock()
	}
	return done
}

// known returns the services that are held; false: nobody knows yet.
func (h *holds) known() (map[string]holdValue, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.now), h.listed
}

// run tells until ctx ends.
func (h *holds) run(ctx context.Context, s Supervisor) {
	board := s.Board()
	for {
		changed, members := board.ChangedHere(), board.Members()
		var again <-chan time.Time
		if next := h.round(ctx, s); next > 0 {
			again = time.After(next)
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				if !sleep(ctx, holdRest) {
					return
				}
				changed = board.ChangedHere()
				waits = !h.any() && board.Members() == members // a container that comes may have a hold of before
			case <-h.wake:
				waits = false
			case <-again:
				waits = false
			}
		}
	}
}

// round does what is due, and returns when to look again; 0: when something changes.
func (h *holds) round(ctx context.Context, s Supervisor) time.Duration {
	done := h.rewrite(ctx)
	if now, listed := h.known(); listed {
		done = h.settle(ctx, s, now) && done
	}
	if !done {
		return holdAgain
	}
	return 0
}

func (h *holds) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.now) > 0
}

// settle tells each container's hold where it is another one now. It says whether all of that was done.
func (h *holds) settle(ctx context.Context, s Supervisor, now map[string]holdValue) (done bool) {
	done = true
	for v := range s.Board().All() {
		hold := ""
		if held, ok := now[v.Service]; ok {
			hold = held.name()
		}
		if v.Spec == nil || v.State.Lasting.FleetHold == hold {
			continue
		}
		err := s.HoldByFleet(ctx, runtime.IDPrefix+v.Container.ID, hold)
		done = done && (err == nil || errors.Is(err, supervisor.ErrUnknownContainer))
	}
	return done
}

// Hold holds a service on all hosts for so long; 0: until a Resume. A second hold replaces the first. The error says why etcd
// has not taken it; after context.DeadlineExceeded it may have.
func (f *Fleet) Hold(ctx context.Context, service string, d time.Duration) error {
	value := holdValue{By: f.config.Host, Since: time.Now().UTC().Truncate(time.Second)}
	if d > 0 {
		value.For = d.String()
	}
	return f.putHold(ctx, service, value, d)
}

func (f *Fleet) holdName(service string) string {
	return f.base + key{kind: holdKey, service: service}.String()
}

// putHold writes a hold that etcd ends after a time, by its own clock; 0: nobody does. With conditions it is no error that they are not met.
func (f *Fleet) putHold(ctx context.Context, service string, value holdValue, d time.Duration, conditions ...clientv3.Cmp) error {
	k := key{kind: holdKey, service: service}
	text, err := encode(value)
	if err = errors.Join(err, k.check()); err != nil {
		return err
	}
	return f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		var options []clientv3.OpOption
		if d > 0 {
			lease, err := c.Grant(ctx, int64((d+time.Second-1)/time.Second))
			if err != nil {
				return err
			}
			options = append(options, clientv3.WithLease(lease.ID))
		}
		_, err := c.Txn(ctx).If(conditions...).Then(clientv3.OpPut(f.holdName(service), text, options...)).Commit()
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
		answer, err := c.Delete(ctx, f.holdName(service))
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
