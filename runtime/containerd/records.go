package containerd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"
)

const (
	openTimeout  = time.Second // for the file's lock
	damagedName  = ".damaged"
	recordFormat = "1"
)

var (
	hostBucket       = []byte("host")
	containersBucket = []byte("containers")
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
	failed  bool       // the last write did
}

// record is what is known of one container.
type record struct {
	Created int64 `json:"created"` // by containerd's clock: tells a new container of the same ID
	run
	LogURI string `json:"log,omitempty"`  // of the newest task, for the next one
	OOMAt  int64  `json:"oomAt,omitzero"` // when the kernel last killed one of its processes for want of memory

	// Stopped is nerdctl's label explicitly-stopped, as last seen.
	Stopped bool `json:"stopped,omitempty"`
	// StoppedBefore says that the label was true already when the run began: it tells nothing
	// of the run. It turned true in this run at KillAt; 0: it did not.
	StoppedBefore bool  `json:"stoppedBefore,omitempty"`
	KillAt        int64 `json:"killAt,omitzero"`

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
}

// host is what the file says of the host.
type host struct {
	Format string `json:"format"`
	Boot   string `json:"boot"`
	Anchor int64  `json:"anchor"`
	Since  int64  `json:"since"` // when the file was begun
	Latest int64  `json:"latest"`
}

// openRecords reads the file; empty: there is none. A file that cannot be read is renamed, and
// a new one begun. The only error is that another process uses it.
func openRecords(file string, log *zap.Logger) (*records, error) {
	r := &records{log: log, all: map[key]*record{}, changed: map[key]struct{}{}}
	h := host{}
	if file != "" {
		err := r.open(file, &h)
		if errors.Is(err, berrors.ErrTimeout) {
			return nil, fmt.Errorf("another healthd uses %s: stop it or change the state directory", file)
		}
		if err != nil {
			log.Warn("exit codes of containerd's containers are kept in memory only", zap.String("file", file), zap.Error(err))
		}
	}
	r.clock, r.since = h.clock(), time.Unix(0, h.Since)
	if h.Since == 0 {
		r.since = r.clock.now()
		h.Since = r.since.UnixNano()
	}
	h.Boot, h.Anchor, h.Format = r.clock.boot, r.clock.anchor, recordFormat
	return r, r.writeHost(h)
}

// clock returns the clock of the present boot. It goes on after that of the boot before, even
// if the wall clock was set back: what is before its anchor was before the boot.
func (h host) clock() clock {
	c := clock{boot: bootID(), anchor: h.Anchor}
	if h.Anchor == 0 || c.boot == "" || c.boot != h.Boot {
		c.anchor = max(newAnchor(), h.Latest+1)
	}
	return c
}

func (r *records) open(file string, h *host) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	err := r.read(file, h)
	if err == nil || errors.Is(err, berrors.ErrTimeout) || errors.Is(err, os.ErrPermission) {
		return err
	}
	r.log.Warn("the exit codes of containerd's containers cannot be read and are lost", zap.String("file", file), zap.Error(err))
	*h, r.all = host{}, map[key]*record{}
	if err := os.Rename(file, file+damagedName); err != nil {
		return err
	}
	return r.read(file, h)
}

func (r *records) read(file string, h *host) (err error) {
	defer func() {
		if p := recover(); p != nil { // bbolt may panic about damage
			r.db, err = nil, fmt.Errorf("it is damaged: %v", p)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{Timeout: openTimeout})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		hosts, err := tx.CreateBucketIfNotExists(hostBucket)
		if err != nil {
			return err
		}
		containers, err := tx.CreateBucketIfNotExists(containersBucket)
		if err != nil {
			return err
		}
		if b := hosts.Get(hostBucket); b != nil {
			if err := json.Unmarshal(b, h); err != nil {
				return err
			}
			if h.Format != recordFormat {
				return fmt.Errorf("it is of another version of healthd, with format %q", h.Format)
			}
		}
		return containers.ForEach(func(k, b []byte) error {
			rec := &record{}
			r.all[parseKey(string(k))] = rec
			return json.Unmarshal(b, rec)
		})
	})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	r.db = db
	return nil
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

// save writes all changes, and returns when they are on the disk. A disk that cannot be
// written is logged, and no reason to do nothing: the records go on in memory.
func (r *records) save() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	if len(r.changed) == 0 || r.db == nil {
		clear(r.changed)
		r.mu.Unlock()
		return
	}
	texts := map[key][]byte{}
	for k := range r.changed {
		texts[k] = nil
		if rec := r.all[k]; rec != nil {
			texts[k], _ = json.Marshal(rec)
		}
	}
	clear(r.changed)
	r.mu.Unlock()
	err := r.db.Update(func(tx *bolt.Tx) error { return r.write(tx, texts) })
	if err != nil {
		r.mu.Lock()
		for k := range texts {
			r.changed[k] = struct{}{} // with the next one
		}
		r.mu.Unlock()
	}
	if err != nil && !r.failed {
		r.log.Warn("exit codes of containerd's containers cannot be written", zap.Error(err))
	}
	r.failed = err != nil
}

func (r *records) write(tx *bolt.Tx, texts map[key][]byte) error {
	containers := tx.Bucket(containersBucket)
	for _, k := range slices.SortedFunc(maps.Keys(texts), func(a, b key) int { return cmp.Compare(a.String(), b.String()) }) {
		name := []byte(k.String())
		if texts[k] == nil {
			if err := containers.Delete(name); err != nil {
				return err
			}
			continue
		}
		if err := containers.Put(name, texts[k]); err != nil {
			return err
		}
	}
	return r.putHost(tx, host{Format: recordFormat, Boot: r.clock.boot, Anchor: r.clock.anchor, Since: r.since.UnixNano()})
}

func (r *records) writeHost(h host) error {
	if r.db == nil {
		return nil
	}
	return r.db.Update(func(tx *bolt.Tx) error { return r.putHost(tx, h) })
}

func (r *records) putHost(tx *bolt.Tx, h host) error {
	h.Latest = r.clock.now().UnixNano()
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return tx.Bucket(hostBucket).Put(hostBucket, b)
}

func (r *records) close() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	return db.Close()
}
