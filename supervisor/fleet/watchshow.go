package fleet

import (
	"maps"
	"time"

	"healthd/supervisor"
)

func (w *watcher) remoteKnown() {
	if !w.known {
		w.known = true
		w.board.RemoteKnown()
		w.f.changed("")
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
