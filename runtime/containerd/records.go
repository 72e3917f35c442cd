package containerd

import (
	"os"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// records keeps what the Engine has seen of each container's newest run: containerd loses an
// exit code with its task. Each change is on the disk before anybody hears of it, so that a
// killed healthd has promised nothing that the next one does not know. There is one record
// for each container that exists.
//
// Without a usable file they are in memory only.
type records struct {
	clock clock
	since time.Time // they are complete from then on, by the clock
	log   *zap.Logger

	mu      sync.Mutex
	all     map[key]*record
	changed map[key]struct{} // not in the file yet
	version uint64           // counts changes

	writing sync.Mutex // guards what follows
	db      *bolt.DB   // nil: in memory only
	file    string     // of db
	opened  os.FileInfo
	failed  bool // the last write did
}

// record is what is known of one container.
type record struct {
	Created int64 `json:"created"`       // by containerd's clock: tells a new container of the same ID
	Seen    int64 `json:"seen,omitzero"` // when healthd first saw that container; 0: an older healthd did
	run
	LogURI string `json:"log,omitempty"`  // of the newest task, for the next one
	OOMAt  int64  `json:"oomAt,omitzero"` // when the kernel last killed one of its processes for want of memory

	// Stopped is nerdctl's label explicitly-stopped, as last seen.
	Stopped bool `json:"stopped,omitempty"`
	// KillAt is when it turned true in this run, or was set again; 0: it tells nothing of the run.
	KillAt int64 `json:"killAt,omitzero"`

	killTold bool   // on the present stream
	version  uint64 // of its newest change
}

// run is one run of a container. Times are by the Engine's clock.
type run struct {
	Boot    string `json:"boot,omitempty"` // the host's boot
	Pid     int    `json:"pid,omitempty"`  // 0: none is known
	Ticks   uint64 `json:"ticks,omitempty"`
	Started int64  `json:"started,omitempty"` // 0: it never ran
	Ended   int64  `json:"ended,omitempty"`   // 0: it goes on, as far as is known
	Code    int    `json:"code,omitempty"`
	Lost    string `json:"lost,omitempty"` // why the exit code is not known; empty: it is
	OOM     bool   `json:"oom,omitempty"`
	// OwnStops is how many stop signals healthd sent it, and OwnStop when the first one.
	OwnStops int   `json:"ownStops,omitzero"`
	OwnStop  int64 `json:"ownStop,omitzero"`
}

// get returns a copy of what is known of the container; a zero record for nothing.
func (r *records) get(k key) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.all[k]; rec != nil {
		return *rec
	}
	return record{}
}

// change lets f change what is known of a container, and returns a copy. The caller saves it.
func (r *records) change(k key, f func(*record)) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := record{}
	rec := r.all[k]
	if rec == nil {
		rec = &record{}
		r.all[k] = rec
	} else {
		before = *rec
	}
	r.version++
	f(rec)
	told := before
	told.killTold = rec.killTold // is not written
	if *rec != told {
		r.changed[k] = struct{}{}
	}
	rec.version = r.version
	return *rec
}

// drop forgets a container that is gone.
func (r *records) drop(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[k] != nil {
		delete(r.all, k)
		r.changed[k] = struct{}{}
	}
}

// mark returns a number for dropOthers: what changes from now on is newer.
func (r *records) mark() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// dropOthers forgets all containers that a list does not have, but for those that changed
// since it was begun.
func (r *records) dropOthers(listed func(key) bool, since uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, rec := range r.all {
		if rec.version <= since && !listed(k) {
			delete(r.all, k)
			r.changed[k] = struct{}{}
		}
	}
}

// tellNoneAgain takes in that a new stream begins: what came before it is not told on it.
func (r *records) tellNoneAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		rec.killTold = true
	}
}
