package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/supervisor"
)

const (
	progressEvery = time.Second
	silence       = 3 * time.Second  // after which a member of etcd counts as hung
	listEvery     = 10 * time.Minute // whatever the watch says: it cannot tell of a store that was replaced in a moment
	listWithin    = 30 * time.Second // all pages
	pageKeys      = 5000
	pageWithin    = 4 * time.Second
	tellLostAfter = 4 * time.Second // two attempts: the first may have met a member of etcd that hangs
)

// listReason is why all is listed.
type listReason string

const (
	listStart     listReason = "start"
	listBreak     listReason = "break" // the watch was broken for long
	listCompacted listReason = "compacted"
	listBack      listReason = "back" // an answer had a lower revision than one before
	listBig       listReason = "big"  // too much came at once
	listRegular   listReason = "regular"
)

var listReasons = []listReason{listStart, listBreak, listCompacted, listBack, listBig, listRegular}

// watcher shows on the board what the store has of other hosts. It lists, and watches from there. A watch that is silent although
// it is asked each second, or that has no leader, is given up: the next one is with another member, and goes on at the same
// revision. While nothing can be reached, all stays as it was.
type watcher struct {
	f     *Fleet
	board *supervisor.Board
	view  *view

	list    listReason // why to list before the next watch; empty: to go on
	listed  time.Time
	broken  time.Time // since when there is no watch; zero: there is one
	known   bool      // RemoteKnown was told
	page    int64
	keep    chan *keptView
	dirty   bool // what is known of others has changed since it was kept
	backoff time.Duration
}

func newWatcher(f *Fleet) *watcher {
	local := f.config.Advertise.IsLoopback() // the fleet is on one machine
	return &watcher{f: f, view: newView(f.config.Host, f.config.TTL, local), list: listStart, page: pageKeys, keep: make(chan *keptView, 1)}
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	w.restore()
	w.broken = time.Now()
	w.show(false)
	for ctx.Err() == nil {
		began := time.Now()
		watched, err := w.session(ctx)
		if ctx.Err() != nil {
			break
		}
		w.backoff = min(max(2*w.backoff, backoffLeast), backoffMost)
		if watched {
			w.backoff = 0
		}
		w.settle(ctx, watched, err)
		if hasty := time.Since(began) < progressEvery; (hasty || !watched) && !w.sleep(ctx, max(w.backoff, backoffLeast)-time.Since(began)) {
			break
		}
	}
	w.view.broke(time.Now())
	select {
	case <-w.keep: // an older one
		w.dirty = true
	default:
	}
	w.offer()
	close(w.keep)
}

// sleep waits. While there is no watch nobody leaves, but hosts are forgotten.
func (w *watcher) sleep(ctx context.Context, d time.Duration) bool {
	w.take(w.view.tick(time.Now()))
	return sleep(ctx, max(d, backoffLeast/5))
}

// settle takes in why a session has ended. That a watch has ended is no loss: the next session begins at once.
func (w *watcher) settle(ctx context.Context, watched bool, err error) {
	now := time.Now()
	w.view.broke(now)
	if w.broken.IsZero() {
		w.broken = now
	}
	switch classOf(err) {
	case compacted:
		w.list = listCompacted
	case tooBig:
		w.list = listBig
		w.page = max(1, w.page/8)
	}
	if errors.Is(err, errBack) {
		w.list = listBack
	}
	if errors.Is(err, errRegular) {
		w.list = listRegular
	}
	if watched {
		return
	}
	w.show(false)
	signal(w.f.closer.wake)
	if c := classOf(err); c != notReached || now.Sub(w.broken) >= tellLostAfter {
		w.f.fail(aboutStore, c, w.why(ctx, err))
	}
}

// why says why etcd is not reached, and what helps.
func (w *watcher) why(ctx context.Context, err error) string {
	text := fmt.Sprintf("cannot reach etcd at %s: %v", strings.Join(w.f.config.Endpoints, ", "), err)
	switch classOf(err) {
	case refused:
		return "etcd refuses to show the fleet: " + explain(refused, err)
	case noLeader:
		text = fmt.Sprintf("etcd has no leader: too few of its members at %s are up", strings.Join(w.f.config.Endpoints, ", "))
	case notReached:
		if cause := w.f.store.cause(ctx); cause != nil {
			text = fmt.Sprintf("cannot reach etcd: %v", cause)
			if strings.Contains(cause.Error(), "tls:") || strings.Contains(cause.Error(), "x509:") {
				w.f.store.drop() // the next client reads the CA anew
			}
		}
	}
	return text + ". What was known of other hosts last goes on being served"
}

var (
	errBack    = errors.New("the store has an older state than before")
	errSilent  = errors.New("etcd does not report any more")
	errEnded   = errors.New("the watch has ended")
	errRegular = errors.New("all is listed again")
)

// session lists, if need be, and watches until that ends. watched says that there was a watch.
func (w *watcher) session(ctx context.Context) (watched bool, err error) {
	if w.list == "" && time.Since(w.broken) >= resumeWithin {
		w.list = listBreak
	}
	if w.list == "" {
		err = w.resume(ctx)
	}
	if errors.Is(err, errBack) {
		w.list, err = listBack, nil
	}
	if err == nil && w.list != "" {
		err = w.listAll(ctx)
	}
	if err != nil {
		return false, err
	}
	var client *clientv3.Client
	if err := w.f.store.do(ctx, callWithin, func(_ context.Context, c *clientv3.Client) error { client = c; return nil }); err != nil {
		return false, err
	}
	return w.watch(ctx, client)
}

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

// watch takes in what changes, until the watch ends.
func (w *watcher) watch(ctx context.Context, client *clientv3.Client) (watched bool, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	answers := client.Watch(ctx, w.f.base, clientv3.WithPrefix(), clientv3.WithRev(w.view.revision+1), clientv3.WithCreatedNotify())
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	heard := time.Now()
	for {
		if next := w.view.next(time.Now()); !next.IsZero() {
			tick.Reset(max(time.Millisecond, time.Until(next)))
		}
		turned := time.Now()
		select {
		case <-ctx.Done():
			return watched, ctx.Err()
		case answer, ok := <-answers:
			w.awake(heard)
			if err := endOf(&answer, ok); err != nil {
				return watched, err
			}
			heard = time.Now()
			if w.view.wentBack(answer.Header.Revision, len(answer.Events) > 0) {
				return watched, errBack // or that member is: the list tells
			}
			if !watched {
				watched = true
				w.connected()
			}
			w.report(&answer)
		case now := <-progress.C:
			w.awake(turned)
			if now.Sub(heard) > silence {
				return watched, errSilent
			}
			if now.Sub(w.listed) > listEvery {
				return watched, errRegular
			}
			w.ask(ctx, client)
			w.offer()
			w.take(w.view.tick(now)) // hosts are forgotten
		case now := <-tick.C:
			w.awake(turned)
			w.take(w.view.tick(now))
		}
	}
}

// awake takes in that nothing has happened since a time: something does each second, unless etcd or this daemon stands still.
func (w *watcher) awake(since time.Time) {
	if now := time.Now(); now.Sub(since) > standstill {
		w.view.stood(now)
	}
}

// ask asks for the revision of the watch.
func (w *watcher) ask(ctx context.Context, client *clientv3.Client) {
	ctx, cancel := context.WithTimeout(ctx, progressEvery/2)
	defer cancel()
	w.view.ask()
	_ = client.RequestProgress(ctx) // silence tells
}

// endOf returns why an answer is the last one; nil: it is not.
func endOf(answer *clientv3.WatchResponse, open bool) error {
	switch {
	case !open:
		return errEnded
	case answer.Err() != nil:
		return answer.Err()
	case answer.Canceled:
		return errEnded
	}
	return nil
}

// connected takes in that the watch is live.
func (w *watcher) connected() {
	w.broken, w.backoff = time.Time{}, 0
	w.show(true)
	w.f.mend(aboutStore)
	w.remoteKnown()
	signal(w.f.closer.wake)
}

func (w *watcher) remoteKnown() {
	if !w.known {
		w.known = true
		w.board.RemoteKnown()
		w.f.changed("")
	}
}

// report takes in one answer of the watch.
func (w *watcher) report(answer *clientv3.WatchResponse) {
	now := time.Now()
	if len(answer.Events) == 0 {
		w.view.progress(answer.Header.Revision)
		w.showRevision()
		return
	}
	all := make([]record, len(answer.Events))
	own := false
	for i, ev := range answer.Events {
		all[i] = w.record(ev.Kv, ev.Type == clientv3.EventTypeDelete)
		if k, err := parseKey(all[i].name); err == nil && isOwn(k, w.f.config.Host) {
			w.f.own.saw(&all[i])
			own = true
			switch {
			case k.kind != hostKey:
			case all[i].deleted:
				signal(w.f.lease.wake) // whoever had the name has left it
			default:
				w.f.lease.saw(&all[i])
			}
		}
	}
	w.f.tellOthers(all, false)
	w.take(w.view.events(all, answer.Header.Revision, now))
	if own {
		signal(w.f.publisher.wake)
	}
}

// take shows what has changed.
func (w *watcher) take(c *changes) {
	put := make([]supervisor.Member, len(c.put))
	for i, r := range c.put {
		put[i] = r.boardMember()
	}
	if len(put)+len(c.gone) > 0 {
		w.board.ShowRemote(put, c.gone)
		for i := range put {
			w.f.changed(put[i].ID)
		}
		for _, id := range c.gone {
			w.f.changed(id)
		}
		if w.f.words.show(c.put, c.gone) {
			signal(w.f.publisher.wake)
		}
	}
	for _, told := range c.tell {
		w.f.record(told.reason, "%s", told.message)
	}
	if c.words {
		w.f.closer.setOthers(maps.Clone(w.view.words))
	}
	w.dirty = w.dirty || len(put)+len(c.gone) > 0 || c.hosts
	old := w.f.seen.Load()
	if c.hosts || len(old.WrongKeys) != len(w.view.wrong.names) {
		w.show(old.Connected)
	}
	w.showRevision()
	if c.hosts {
		signal(w.f.closer.wake)
	}
}

// showRevision keeps the Status true when nothing but the revision has changed.
func (w *watcher) showRevision() {
	if old := w.f.seen.Load(); old.Revision != w.view.seen {
		s := *old
		s.Revision = w.view.seen
		w.f.seen.Store(&s)
	}
}

// show makes a new Status.
func (w *watcher) show(connected bool) {
	old := w.f.seen.Load()
	s := &Status{
		Connected: connected, Since: old.Since, Revision: w.view.seen, Host: w.f.config.Host, Prefix: w.f.config.Prefix,
		Hosts: w.view.hostList(), WrongKeys: w.view.wrong.list(),
	}
	if connected != old.Connected || old.Since.IsZero() {
		s.Since = time.Now()
	}
	w.f.seen.Store(s)
}

// restore shows what an earlier daemon knew last. Where none has ever known other hosts nobody can lose their members: this host
// need not wait for etcd to serve its own.
func (w *watcher) restore() {
	k, err := loadView(w.f.viewFile, w.f.config.Prefix)
	if err != nil {
		w.f.record(eventError, "Fleet: cannot read what was known of other hosts: %v", err)
	}
	if k == nil {
		if err == nil && w.f.self.alone() {
			w.remoteKnown()
		}
		return
	}
	w.take(w.view.restore(k, time.Now()))
	w.dirty = false
	w.remoteKnown()
}

// offer gives what is known of others to who keeps it, if that has changed and the last is being written no more.
func (w *watcher) offer() {
	if !w.dirty || w.view.revision == 0 { // nothing is known but what was kept
		return
	}
	select {
	case w.keep <- w.view.keep():
		w.dirty = false
	default:
	}
}
