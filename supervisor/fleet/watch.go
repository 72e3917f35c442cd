package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
