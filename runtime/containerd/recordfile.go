package containerd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
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
	}
	if err := r.update(r.putHost); err != nil {
		log.Warn("exit codes of containerd's containers cannot be written", zap.String("file", file), zap.Error(err))
	}
	return r, nil
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
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a file that is cut off faults
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
	if err == nil {
		r.opened, err = os.Stat(file)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	r.db, r.file = db, file
	return nil
}

// followPath makes a new file for all records when the open one was removed or replaced: what is written to it then is
// lost when healthd ends. It needs writing.
func (r *records) followPath() {
	if r.db == nil {
		return
	}
	at, err := os.Stat(r.file)
	if err == nil && os.SameFile(at, r.opened) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	r.log.Warn("the exit codes of containerd's containers were removed or replaced: all that are known go to a new file", zap.String("file", r.file))
	_ = r.db.Close()
	r.db = nil
	if err == nil { // it is of another time
		err = os.Rename(r.file, r.file+damagedName)
	} else {
		err = os.MkdirAll(filepath.Dir(r.file), 0o750)
	}
	if err == nil {
		err = r.read(r.file, &host{})
	}
	if err != nil {
		r.log.Warn("exit codes of containerd's containers cannot be written, they are in memory only", zap.Error(err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.all {
		r.changed[k] = struct{}{}
	}
}

// save writes all changes, and returns when they are on the disk. A disk that cannot be
// written is logged, and no reason to do nothing: the records go on in memory.
func (r *records) save() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.followPath()
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
	err := r.update(func(tx *bolt.Tx) error { return r.write(tx, texts) })
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
	return r.putHost(tx)
}

func (r *records) putHost(tx *bolt.Tx) error {
	b, err := json.Marshal(host{
		Format: recordFormat, Boot: r.clock.boot, Anchor: r.clock.anchor,
		Since: r.since.UnixNano(), Latest: r.clock.now().UnixNano(),
	})
	if err != nil {
		return err
	}
	return tx.Bucket(hostBucket).Put(hostBucket, b)
}

// update writes to the file, if there is one. It needs writing, or nobody else to know r.
func (r *records) update(f func(*bolt.Tx) error) (err error) {
	if r.db == nil {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil { // bbolt's way to say that the file is damaged
			r.db, err = nil, fmt.Errorf("the file is damaged, so the records are in memory only: %v", p)
		}
	}()
	return r.db.Update(f)
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
