package fleet

import (
	"context"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listReason is why all is listed.
type listReason string

// Why all is listed.
const (
	listStart     listReason = "start"
	listBreak     listReason = "break" // the watch was broken for long
	listCompacted listReason = "compacted"
	listBack      listReason = "back" // an answer had a lower revision than one before
	listBig       listReason = "big"  // too much came at once
	listRegular   listReason = "regular"
)

var listReasons = []listReason{listStart, listBreak, listCompacted, listBack, listBig, listRegular}

// resume makes sure that the store has not gone back: a watch of a revision to come is silent.
func (w *watcher) resume(ctx context.Context) error {
	var revision int64
	err := w.f.store.do(ctx, callWithin, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := c.Get(ctx, w.f.base+key{kind: hostKey, host: w.f.config.Host}.String(), clientv3.WithKeysOnly())
		if err == nil {
			revision = answer.Header.Revision
		}
		return err
	})
	if err != nil {
		return err
	}
	if w.view.behind(revision) {
		return errBack
	}
	w.take(w.view.resume(revision, time.Now()))
	return nil
}

// listAll takes in all keys.
func (w *watcher) listAll(ctx context.Context) error {
	reason := w.list
	all, revision, err := w.getAll(ctx)
	if err != nil {
		return err
	}
	w.f.metrics.relists.WithLabelValues(string(reason)).Inc()
	w.f.self.knowsOthers()
	w.list, w.listed, w.page = "", time.Now(), pageKeys
	changes, back := w.view.list(all, revision, w.listed)
	var own []record
	for i := range all {
		if k, err := parseKey(all[i].name); err == nil && isOwn(k, w.f.config.Host) {
			own = append(own, all[i])
		}
	}
	w.f.own.listed(own, revision, back)
	if back {
		w.f.holds.wentBack()
	}
	w.f.tellOthers(all, true)
	if back {
		w.f.record(eventError, "The fleet's store has an older state than before: it was restored. What this host publishes is written again; what others have published stays for %v", 2*w.f.config.TTL)
	}
	w.take(changes)
	signal(w.f.publisher.wake)
	return nil
}

// getAll reads all keys as of one revision, in pages: an answer has a bound.
func (w *watcher) getAll(ctx context.Context) (all []record, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	from, end := w.f.base, clientv3.GetPrefixRangeEnd(w.f.base)
	for {
		var answer *clientv3.GetResponse
		err = w.f.store.do(ctx, pageWithin, func(ctx context.Context, c *clientv3.Client) (err error) {
			answer, err = c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(w.page), clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		if revision == 0 {
			revision = answer.Header.Revision
		}
		for _, kv := range answer.Kvs {
			all = append(all, w.record(kv, false))
		}
		if !answer.More {
			return all, revision, nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

// record copies a key of etcd's. What is too big is not copied: it is none of healthd's.
func (w *watcher) record(kv *mvccpb.KeyValue, deleted bool) record {
	r := record{name: strings.TrimPrefix(string(kv.Key), w.f.base), value: kv.Value, rev: kv.ModRevision, lease: kv.Lease, deleted: deleted}
	if len(kv.Value) > maxValue {
		r.value = make([]byte, maxValue+1)
	}
	return r
}
