package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/supervisor"
)

const (
	maxOperations = 100 // of a transaction; etcd takes 128
	backoffLeast  = 500 * time.Millisecond
	backoffMost   = 5 * time.Second
	longestRest   = time.Second
	lookEvery     = 5 * time.Second // of phases and runtimes the board does not tell
)

// publisher writes what others are to know of this host: what the board shows is compared with what the store has, and what
// differs is written under the lease. So a new lease, a store that went back, and keys that an earlier daemon has left, or
// somebody has deleted, are all one case.
type publisher struct {
	f       *Fleet
	board   *supervisor.Board
	wake    chan struct{} // has room for one: the lease, what the store has, or the words of this host are others now
	hostKey string
	cache   map[string]*cached // by container's ID
	looks   uint64
	backoff time.Duration
	refused int // as told
}

func newPublisher(f *Fleet) *publisher {
	return &publisher{f: f, wake: make(chan struct{}, 1), hostKey: key{kind: hostKey, host: f.config.Host}.String(), cache: map[string]*cached{}}
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := p.board.ChangedHere()
		began := time.Now()
		w := p.look()
		took := time.Since(began)
		p.tellRefused(w.refused)
		wait := p.write(ctx, w)
		p.f.closer.setAwaiting(w.awaiting)
		if wait > 0 { // it has failed
			if !sleep(ctx, wait) {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-p.wake:
		case <-time.After(lookEvery):
		}
		sleep(ctx, min(took, longestRest)) // half of a core at most, as what writes files does
	}
}

// write writes what differs. It returns when to try again, if that has failed.
func (p *publisher) write(ctx context.Context, w *wanted) (again time.Duration) {
	h, ok := p.f.lease.now()
	if !ok {
		return 0 // the keeper tells when it is
	}
	if !h.claimed {
		p.correct(ctx, h.id, w)
		return 0
	}
	puts, deletes := p.f.own.diff(w.keys, int64(h.id), w.known)
	for len(puts)+len(deletes) > 0 {
		n := min(len(puts), maxOperations)
		m := min(len(deletes), maxOperations-n)
		if err := p.transact(ctx, h.id, w.keys, puts[:n], deletes[:m]); err != nil {
			if classOf(err) == noSpace {
				p.withdraw(ctx, h.id, w)
			}
			return p.failed(err, h.id)
		}
		puts, deletes = puts[n:], deletes[m:]
	}
	p.backoff = 0
	p.f.mend(aboutPublish)
	return 0
}

// transact writes some keys, if the name of the host is still its own.
func (p *publisher) transact(ctx context.Context, lease clientv3.LeaseID, wanted map[string]string, puts, deletes []string) error {
	base := p.f.base
	values := make([]string, len(puts))
	var operations []clientv3.Op
	for i, name := range puts {
		values[i] = wanted[name]
		if k, err := parseKey(name); err == nil && k.kind == memberKey {
			values[i] = withRevision(values[i], p.f.self.nextRevision())
		}
		operations = append(operations, clientv3.OpPut(base+name, values[i], clientv3.WithLease(lease)))
	}
	for _, name := range deletes {
		operations = append(operations, clientv3.OpDelete(base+name))
	}
	var answer *clientv3.TxnResponse
	err := p.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) (err error) {
		answer, err = c.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(base+p.hostKey), "=", lease)).Then(operations...).Commit()
		return err
	})
	if err != nil {
		if c := classOf(err); c == notReached || c == failed {
			p.f.own.unknown(puts)
		}
		return err
	}
	if !answer.Succeeded {
		return errClaimed
	}
	for i, name := range puts {
		p.f.own.wrote(name, values[i], int64(lease), answer.Header.Revision)
	}
	for _, name := range deletes {
		p.f.own.deleted(name, answer.Header.Revision)
	}
	p.f.metrics.writes.Add(float64(len(operations)))
	return nil
}

// failed returns when to write again.
func (p *publisher) failed(err error, lease clientv3.LeaseID) time.Duration {
	c := classOf(err)
	switch {
	case err == errClaimed: // somebody has deleted or taken the key, or the store went back
		p.f.lease.unclaim(lease)
		return renewAgain
	case c == noLease:
		p.f.lease.lost(lease)
		return renewAgain
	}
	p.backoff = min(max(2*p.backoff, backoffLeast), backoffMost)
	if c == notReached || c == noLeader {
		return p.backoff // the watcher tells
	}
	p.f.fail(aboutPublish, c, "cannot publish members of this host: "+explain(c, err))
	return backoffMost
}

// correct writes what is not true any more while the name of the host is not its own: the lease of its members lives on, so others
// would send requests to what is down. Only keys under this lease are touched: another daemon of the name has its own.
func (p *publisher) correct(ctx context.Context, lease clientv3.LeaseID, w *wanted) {
	puts, deletes := p.f.own.diff(w.keys, int64(lease), w.known)
	for _, name := range slices.Concat(deletes, puts) { // a full etcd takes deletions only
		if h, _ := p.f.lease.now(); h.claimed || h.id != lease {
			return // all is written
		}
		if !strings.HasPrefix(name, string(memberKey)+"/") || !p.f.own.isUnder(name, int64(lease)) {
			continue
		}
		err := p.correctOne(ctx, lease, name, w.keys[name])
		full := err != nil && classOf(err) == noSpace
		if full && !isReady(w.keys[name]) {
			err = p.correctOne(ctx, lease, name, "")
		}
		if err != nil && !full {
			return // the next look tries again
		}
	}
}

// correctOne writes or, without a body, deletes a member, if it is still under a lease.
func (p *publisher) correctOne(ctx context.Context, lease clientv3.LeaseID, name, body string) error {
	operation, value := clientv3.OpDelete(p.f.base+name), ""
	if body != "" {
		value = withRevision(body, p.f.self.nextRevision())
		operation = clientv3.OpPut(p.f.base+name, value, clientv3.WithLease(lease))
	}
	var answer *clientv3.TxnResponse
	err := p.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) (err error) {
		answer, err = c.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(p.f.base+name), "=", lease)).Then(operation).Commit()
		return err
	})
	switch {
	case err != nil || !answer.Succeeded:
		return err
	case body == "":
		p.f.own.deleted(name, answer.Header.Revision)
	default:
		p.f.own.wrote(name, value, int64(lease), answer.Header.Revision)
	}
	p.f.metrics.writes.Inc()
	return nil
}

// withdraw deletes what must not go on being served, when etcd is full: it takes no other word for that then.
func (p *publisher) withdraw(ctx context.Context, lease clientv3.LeaseID, w *wanted) {
	puts, deletes := p.f.own.diff(w.keys, int64(lease), w.known)
	for _, name := range puts {
		if p.f.own.isThere(name) && !isReady(w.keys[name]) && strings.HasPrefix(name, string(memberKey)+"/") {
			deletes = append(deletes, name)
		}
	}
	for some := range slices.Chunk(deletes, maxOperations) {
		if p.transact(ctx, lease, nil, nil, some) != nil {
			return
		}
	}
}

func isReady(body string) bool {
	var v memberValue
	return decode([]byte(body), &v) == nil && v.State == stateReady
}

// explain says what helps.
func explain(c class, err error) string {
	switch c {
	case noSpace:
		return fmt.Sprintf("%v: etcd is full, and takes nothing until it is compacted and its alarm is disarmed", err)
	case refused:
		return fmt.Sprintf("%v: its user needs to read and write all keys below the prefix", err)
	}
	return err.Error()
}

func (p *publisher) tellRefused(n int) {
	if n > p.refused {
		p.f.record(eventError, "Fleet: %d containers of this host have names that cannot be published: they are too long, or have characters that cannot be printed", n)
	}
	p.refused = n
}
