package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"healthd/supervisor/core"
)

// ErrLocked says that another daemon keeps its journal in the same directory.
var ErrLocked = errors.New("another healthd uses")

// Config says where a journal is kept.
type Config struct {
	Dir  string // made when it is not there; empty: in memory only
	Boot string // ID of the host's present boot; empty: as the kernel tells it
}

const (
	fileName    = "journal.db"
	damagedName = fileName + ".damaged-"
	// keepDamaged is how many damaged files are left for somebody to look into.
	keepDamaged = 3
)

// database is what is written to; a test has one that fails.
type database interface {
	Update(func(*bolt.Tx) error) error
	Close() error
}

// file is the journal on the disk.
type file struct {
	dir     string
	lock    *os.File // the directory
	db      database // nil: in memory only
	bootNow string
	renewed bool            // db was replaced once, after it broke
	told    map[string]bool // containers of which it was told that they cannot be kept
}

func (f *file) path() string { return filepath.Join(f.dir, fileName) }

// Open returns the journal that is kept in a directory, with what the daemon
// before has left there. The error is ErrLocked, and two daemons must not both
// supervise. Nothing else is an error: a journal that cannot be used goes on in
// memory only until healthd is started again, and one that cannot be read is
// renamed, never deleted but for the oldest of more than three, and begun anew. An
// event tells of either, and of single records that could not be read.
//
// A journal of a later version of healthd is renamed too, to journal.db.version-N-TIME,
// and stays: rename it back to go on with it.
func Open(c Config) (*Journal, error) {
	j := New()
	if c.Dir == "" {
		return j, nil
	}
	j.dir, j.bootNow = c.Dir, c.Boot
	if j.bootNow == "" {
		id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		j.bootNow = strings.TrimSpace(string(id))
	}
	found, damage, err := j.open()
	if errors.Is(err, ErrLocked) {
		return nil, errors.Join(err, j.Close())
	}
	if err == nil {
		j.load(found)
	}
	if damage != "" {
		j.tell(EventJournalDamaged, damage)
	}
	if err != nil {
		j.tell(EventJournalFailed, j.lossy("use", err))
	}
	return j, nil
}

// load begins with what was found.
func (j *Journal) load(c *content) {
	j.ring, j.last, j.opened = c.events, c.last, c.last
	j.base = c.last - uint64(len(c.events)) // what is missing between them closes up
	j.boot = c.boot
	j.memories = slices.SortedFunc(maps.Values(c.memories), func(a, b core.Memory) int { return strings.Compare(a.ID, b.ID) })
	j.behind = behind{
		keeping: true, kept: c.memories, stored: map[string]struct{}{}, dirty: map[string]struct{}{},
		written: c.last, seen: c.seen, taken: c.boot, meta: true, junk: c.junk, wake: make(chan struct{}, 1),
	}
	for id := range c.memories {
		j.stored[id] = struct{}{}
	}
	j.want(company)
}

// open locks the directory and reads the file. It returns what to tell about the
// file, if it is not as it should be.
func (j *Journal) open() (found *content, damage string, err error) {
	if err := os.MkdirAll(j.dir, 0o750); err != nil {
		return nil, "", err
	}
	if err := j.lockDir(); err != nil {
		return nil, "", err
	}
	found, err = j.readFile()
	later, isLater := errors.AsType[fromLater](err)
	switch {
	case isLater:
		damage, err = j.putAside(fmt.Sprintf("%s.version-%d-", fileName, int(later)), err)
	case errors.Is(err, errDamaged):
		damage, err = j.putAside(damagedName, err)
	case err == nil && found.lost() != "":
		return found, fmt.Sprintf("%s: could not be read and is lost: %s", j.path(), found.lost()), nil
	}
	if damage != "" && err == nil {
		found, err = j.readFile()
	}
	return found, damage, err
}

// lockDir keeps other daemons out. It is the directory that is locked, and not only
// the file, as bbolt does: a file can be renamed by whoever finds it damaged.
func (j *Journal) lockDir() (err error) {
	if j.lock, err = os.Open(j.dir); err != nil {
		return err
	}
	err = unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return j.locked()
	}
	if err != nil {
		return fmt.Errorf("cannot lock it: %w", err)
	}
	return nil
}

func (j *Journal) locked() error {
	return fmt.Errorf("%w %s: stop it or change state.dir", ErrLocked, j.dir)
}

// readFile opens the file and returns what is in it. errDamaged says that it is not
// to be used, fromLater that it is not for us.
func (j *Journal) readFile() (found *content, err error) {
	// What check has not found, bbolt may still trip over.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			j.db = nil // not closed: see panicked
			found, err = nil, fmt.Errorf("%w: %w", errDamaged, panicked{p})
		}
	}()
	older, err := checkFile(j.path())
	if err != nil {
		return nil, err
	}
	db, err := j.openDatabase()
	if err != nil {
		return nil, err
	}
	j.db = db
	err = db.View(func(tx *bolt.Tx) error { found, err = read(tx); return err })
	if err != nil {
		db.Close()
		j.db = nil
		return nil, err
	}
	found.older = older
	return found, nil
}

// openDatabase opens the file, or makes it.
//
// Every transaction is synced, the list of free pages with it: without that list
// bbolt finds the free pages when it opens the file, in a goroutine of its own,
// whose panic nobody could recover. The list is the plain one, which takes the
// lowest page first and so keeps the file small.
func (j *Journal) openDatabase() (*bolt.DB, error) {
	_, missing := os.Stat(j.path())
	db, err := bolt.Open(j.path(), 0o600, &bolt.Options{
		Timeout: time.Millisecond, FreelistType: bolt.FreelistArrayType,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, j.locked()
	case errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrVersionMismatch) || errors.Is(err, berrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	case err != nil:
		return nil, err
	}
	if missing != nil {
		if err := j.lock.Sync(); err != nil { // the file's name is in the directory
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

// putAside renames a file that cannot be used and returns what to tell of that.
func (j *Journal) putAside(prefix string, why error) (string, error) {
	aside, err := j.setAside(prefix)
	if err != nil {
		return fmt.Sprintf("%s cannot be read: %v", j.path(), why), err
	}
	return fmt.Sprintf("%s cannot be read: %v: it is now %s, and a new one is begun: what healthd knew is lost", j.path(), why, aside), nil
}

// setAside renames the file to prefix and the time, and deletes the oldest of too
// many damaged ones.
func (j *Journal) setAside(prefix string) (string, error) {
	base := filepath.Join(j.dir, prefix+time.Now().UTC().Format("20060102T150405.000Z"))
	name := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(j.path(), name); err != nil {
		return "", err
	}
	var damaged []string
	entries, _ := os.ReadDir(j.dir) // one too many is no reason to go without a journal
	for _, e := range entries {     // by name, which is by time
		if strings.HasPrefix(e.Name(), damagedName) {
			damaged = append(damaged, e.Name())
		}
	}
	for _, old := range damaged[:max(0, len(damaged)-keepDamaged)] {
		_ = os.Remove(filepath.Join(j.dir, old))
	}
	return name, nil
}

// Close lets go of the directory. It writes nothing: call it after Run has
// returned, or instead of Run.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.keeping = false
	if j.done != nil {
		close(j.done)
		j.done = nil
	}
	j.mu.Unlock()
	var err error
	if j.db != nil {
		err = j.db.Close()
		j.db = nil
	}
	if j.lock != nil {
		// Unlocked by name: a child that is just being started has a copy of it.
		err = errors.Join(err, unix.Flock(int(j.lock.Fd()), unix.LOCK_UN), j.lock.Close())
		j.lock = nil
	}
	return err
}
