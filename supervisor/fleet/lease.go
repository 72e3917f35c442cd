package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	renewWithin = 1500 * time.Millisecond
	renewAgain  = 200 * time.Millisecond
	askEvery    = time.Minute
)

// held is the lease of this host.
type held struct {
	id clientv3.LeaseID
	// renewed is when the newest renewal began that etcd has confirmed: the lease lives for its TTL from then at least.
	renewed time.Time
	claimed bool // the host's key is there, under this lease: everything else may be written
}

// keeper keeps the lease of the host alive, and its name. It renews by KeepAliveOnce, each time a call of its own: the stream of
// KeepAlive stays on a member that hangs until the lease has ended. Errors end nothing: only when etcd says that the lease is gone
// does it ask for another.
//
// A lease is renewed each third of its TTL with a password, too, for it ends else; that costs the servers 60 ms of CPU each
// time. The call each minute is for the token of etcd 3.4, which must not expire.
type keeper struct {
	f      *Fleet
	wake   chan struct{} // has room for one
	within time.Duration // a renewal must be answered

	mu    sync.Mutex
	held  held
	asked time.Time // when etcd was last asked whether the key is there
	wrote int64     // the revision at which this daemon wrote the key
}

func newKeeper(f *Fleet) *keeper {
	return &keeper{f: f, wake: make(chan struct{}, 1), within: renewWithin}
}

// now returns the lease; false: there is none.
func (k *keeper) now() (held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held, k.held.id != 0
}

// lost says that etcd does not know a lease any more.
func (k *keeper) lost(id clientv3.LeaseID) {
	k.mu.Lock()
	if k.held.id == id {
		k.held = held{}
	}
	k.mu.Unlock()
	signal(k.wake)
}

// unclaim says that the host's key is not there, or not under this lease.
func (k *keeper) unclaim(id clientv3.LeaseID) {
	k.mu.Lock()
	if k.held.id == id {
		k.held.claimed = false
	}
	k.mu.Unlock()
	signal(k.wake)
}

// saw takes in that the host's key was written. If another daemon has done that as this instance, after this one, it has a copy of this
// host's state, such as that of a virtual machine has: both would renew one lease and write the same keys. This one becomes another
// instance then, which waits for the name.
func (k *keeper) saw(r *record) {
	v, err := decodeHost(r.value)
	k.mu.Lock()
	twin := err == nil && k.wrote > 0 && r.rev > k.wrote && v.Daemon != "" && v.Daemon != k.f.daemon && v.Instance == k.f.self.instance()
	if twin {
		k.f.self.anew()
		k.held, k.wrote = held{}, 0
	}
	k.mu.Unlock()
	if twin {
		k.f.record(eventError, "Fleet: another daemon runs with a copy of this host's state, and has its name %s: this host is a new one to others, and waits for the name", k.f.config.Host)
		signal(k.wake)
	}
}

// run renews until ctx ends. It begins with the lease of an earlier daemon.
func (k *keeper) run(ctx context.Context) {
	k.mu.Lock()
	k.held.id = clientv3.LeaseID(k.f.self.lease(k.f.named(), k.f.config.TTL))
	k.mu.Unlock()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-time.After(k.round(ctx)):
		}
	}
}

// round does what is due, and returns the time until the next one.
func (k *keeper) round(ctx context.Context) time.Duration {
	third := k.f.config.TTL / 3
	began := time.Now()
	if err := k.renew(ctx); err != nil {
		k.tellFailed(err)
		if classOf(err) == refused {
			return third
		}
		return renewAgain
	}
	k.f.mend(aboutLease)
	h, _ := k.now()
	if h.claimed && began.Sub(k.asked) >= askEvery {
		k.ask(ctx, h)
		h, _ = k.now()
	}
	if h.id == 0 {
		return renewAgain // it was lost meanwhile
	}
	if !h.claimed {
		if err := k.claim(ctx, h); err != nil {
			return k.tellUnclaimed(err, third)
		}
		k.f.mend(aboutName)
		signal(k.f.publisher.wake)
	}
	return max(renewAgain, third-time.Since(began))
}

// renew renews the lease, or gets one.
func (k *keeper) renew(ctx context.Context) error {
	h, ok := k.now()
	began := time.Now()
	if ok {
		err := k.keepAlive(ctx, h.id)
		switch {
		case err == nil:
			k.f.metrics.renewed("ok")
			k.renewed(h.id, began)
			return nil
		case classOf(err) != noLease:
			k.f.metrics.renewed("failed")
			return err
		}
		k.f.metrics.renewed("lost")
	}
	if err := k.end(ctx); err != nil {
		return err
	}
	return k.grant(ctx)
}

// end revokes the lease of an earlier boot of the host, whose containers nobody has asked since.
func (k *keeper) end(ctx context.Context) error {
	id := clientv3.LeaseID(k.f.self.ended(k.f.named()))
	if id == 0 {
		return nil
	}
	err := k.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Revoke(ctx, id)
		return err
	})
	if err != nil && classOf(err) != noLease && classOf(err) != refused {
		return err
	}
	k.f.self.revoked()
	return nil
}

func (k *keeper) grant(ctx context.Context) error {
	ttl := k.f.config.TTL
	began := time.Now()
	var id clientv3.LeaseID
	err := k.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Grant(ctx, max(1, int64((ttl+time.Second-1)/time.Second)))
		if err == nil {
			id = answer.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	k.f.self.setLease(int64(id), k.f.named(), ttl)
	k.take(id, began)
	return nil
}

func (k *keeper) take(id clientv3.LeaseID, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = held{id: id, renewed: began}
}

// renewed takes in that a lease was renewed, unless it was given up meanwhile.
func (k *keeper) renewed(id clientv3.LeaseID, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held.id == id {
		k.held.renewed = began
	}
}

// tellFailed tells of a lease that may have ended. That etcd is not reached is told by the watcher.
func (k *keeper) tellFailed(err error) {
	c := classOf(err)
	if c == notReached || c == noLeader {
		return
	}
	k.f.fail(aboutLease, c, fmt.Sprintf("cannot renew the lease of this host: %v", err))
}

var errClaimed = errors.New("another daemon")

// claim writes the host's key, unless another instance has it.
func (k *keeper) claim(ctx context.Context, h held) error {
	f := k.f
	name := key{kind: hostKey, host: f.config.Host}.String()
	value, err := encode(f.hostValue(false))
	if err != nil {
		return err
	}
	var revision int64
	err = f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		there, err := c.Get(ctx, f.base+name)
		if err != nil {
			return err
		}
		seen := int64(0)
		if len(there.Kvs) > 0 {
			kv := there.Kvs[0]
			seen = kv.ModRevision
			if v, err := decodeHost(kv.Value); err != nil || v.Instance != f.self.instance() {
				return fmt.Errorf("%w has the host name %s in the fleet: nothing of this host is published. Two hosts cannot have one name ([fleet] host)", errClaimed, f.config.Host)
			}
		}
		done, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(f.base+name), "=", seen)).
			Then(clientv3.OpPut(f.base+name, value, clientv3.WithLease(h.id))).Commit()
		if err == nil && !done.Succeeded {
			err = errChanged
		}
		if err == nil {
			revision = done.Header.Revision
		}
		return err
	})
	if err != nil {
		return err
	}
	f.own.wrote(name, value, int64(h.id), revision)
	f.metrics.writes.Inc()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked, k.wrote = time.Now(), revision
	if k.held.id == h.id {
		k.held.claimed = true
	}
	return nil
}

var errChanged = errors.New("it has changed meanwhile")

// tellUnclaimed returns when to try again.
func (k *keeper) tellUnclaimed(err error, third time.Duration) time.Duration {
	h, _ := k.now()
	switch c := classOf(err); {
	case errors.Is(err, errClaimed):
		k.f.fail(aboutName, failed, err.Error())
		return third
	case errors.Is(err, errChanged):
		return renewAgain
	case c == noLease:
		k.lost(h.id)
		return renewAgain
	case c == notReached, c == noLeader:
		return renewAgain
	default:
		k.f.fail(aboutPublish, c, fmt.Sprintf("cannot publish: %v", err))
		return third
	}
}

// ask asks whether the host's key is as it was written.
func (k *keeper) ask(ctx context.Context, h held) {
	f := k.f
	there := false
	err := f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Get(ctx, f.base+key{kind: hostKey, host: f.config.Host}.String())
		if err == nil {
			there = len(answer.Kvs) > 0 && answer.Kvs[0].Lease == int64(h.id)
		}
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = time.Now()
	if err == nil && !there && k.held.id == h.id {
		k.held.claimed = false
	}
}
