package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// ErrLocked is wrapped by Open's error when another daemon uses the directory.
var ErrLocked = errors.New("another healthd uses")

// Config says where the journal's file is.
type Config struct {
	Dir  string // created if missing; empty: in memory only
	Boot string // ID of the host's present boot; empty: read it from the kernel
}

const (
	fileName    = "journal.db"
	damagedName = fileName + ".damaged-"
	// keepDamaged is how many damaged files are kept, for an operator to examine.
	keepDamaged = 3
)

// database is bolt.DB, or in tests one that fails.
type database interface {
	Update(func(*bolt.Tx) error) error
	Close() error
}

// file is the journal's file.
type file struct {
	dir                string
	lock               *os.File // the directory
	db                 database // nil: in memory only
	currentBoot        string
	releasedAt         time.Time       // pages of db
	opened             os.FileInfo     // the file of db
	replaced           bool            // db was replaced once, after it broke
	reportedUnwritable map[string]bool // IDs of containers whose Memory cannot be written, once reported
}

func (f *file) path() string { return filepath.Join(f.dir, fileName) }

// Open returns the journal in a directory, with what the previous daemon left there. The
// only error is ErrLocked: two daemons must not supervise the same host.
//
// A journal that cannot be used goes on in memory until healthd is restarted, and records
// JournalFailed. A file that cannot be read is renamed to journal.db.damaged-TIME, and a
// new one is begun; of damaged files the newest three are kept. A file of a later version
// of healthd is renamed to journal.db.version-N-TIME and kept: rename it back to use it
// again. Both record JournalDamaged, as do single records that could not be read.
func Open(c Config) (*Journal, error) {
	j := New()
	if c.Dir == "" {
		return j, nil
	}
	j.dir, j.currentBoot = c.Dir, c.Boot
	if j.currentBoot == "" {
		id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		j.currentBoot = strings.TrimSpace(string(id))
	}
	found, damage, err := j.open()
	if errors.Is(err, ErrLocked) {
		return nil, errors.Join(err, j.Close())
	}
	if err == nil {
		j.load(found)
	}
	if damage != "" {
		j.recordOwnEvent(EventJournalDamaged, damage)
	}
	if err != nil {
		j.problem = j.failureMessage("use", err)
		j.recordOwnEvent(EventJournalFailed, j.problem)
	}
	return j, nil
}

// load sets the journal to the file's content.
func (j *Journal) load(c *fileContent) {
	j.history, j.last, j.openedSeq, j.boots = c.events, c.last, c.last, c.boots
	now := j.stamp()
	for id, m := range c.memories {
		m := m.FromFile(now)
		c.memories[id] = &m
	}
	j.pendingWrites = pendingWrites{
		persistent: true, current: c.memories, storedIDs: map[string]struct{}{}, dirtyIDs: map[string]struct{}{},
		writtenSeq: c.last, takenSeq: c.last, outdated: c.outdated, seen: c.seen, handledBoots: maps.Clone(c.boots), metaDirty: true, unreadable: c.unreadable, wake: make(chan struct{}, 1),
	}
	for id := range c.memories {
		j.storedIDs[id] = struct{}{}
	}
	j.requestWrite(eventWriteDelay)
}

// open locks the directory and reads the file. damage is the message about a file that
// could not be read, wholly or in part.
func (j *Journal) open() (found *fileContent, damage string, err error) {
	if err := os.MkdirAll(j.dir, 0o750); err != nil {
		return nil, "", err
	}
	if err := j.lockDir(); err != nil {
		return nil, "", err
	}
	found, err = j.readFile()
	later, isLater := errors.AsType[newerVersion](err)
	switch {
	case isLater:
		damage, err = j.renameUnusable(fmt.Sprintf("%s.version-%d-", fileName, int(later)), err)
	case errors.Is(err, errDamaged):
		damage, err = j.renameUnusable(damagedName, err)
	case err == nil && found.describeLost() != "":
		return found, fmt.Sprintf("%s: could not be read and is lost: %s", j.path(), found.describeLost()), nil
	}
	if damage != "" && err == nil {
		found, err = j.readFile()
	}
	return found, damage, err
}

// lockDir keeps other daemons out. bbolt locks the file only, which a daemon that finds it
// damaged may rename.
func (j *Journal) lockDir() (err error) {
	if j.lock, err = os.Open(j.dir); err != nil {
		return err
	}
	err = unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return j.errLockedDir()
	}
	if err != nil {
		return fmt.Errorf("cannot lock it: %w", err)
	}
	return nil
}

func (j *Journal) errLockedDir() error {
	return fmt.Errorf("%w %s: stop it or change state.dir", ErrLocked, j.dir)
}

// readFile opens the file and returns its content. The error wraps errDamaged, or is a
// newerVersion, when the file cannot be used.
func (j *Journal) readFile() (found *fileContent, err error) {
	// bbolt may panic about damage that checkFile did not find.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			j.db = nil // not closed: see bboltPanic
			found, err = nil, fmt.Errorf("%w: %w", errDamaged, bboltPanic{p})
		}
	}()
	lastMayBeMissing, err := checkFile(j.path())
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
	found.lastMayBeMissing = lastMayBeMissing
	return found, nil
}

// openDatabase opens the file, or creates it.
//
// The list of free pages is synced with every transaction. Without it, bbolt looks for
// free pages when it opens the file, in its own goroutine, whose panic would end healthd.
// The array list takes the lowest page first, which keeps the file small.
func (j *Journal) openDatabase() (*bolt.DB, error) {
	_, missing := os.Stat(j.path())
	db, err := bolt.Open(j.path(), 0o600, &bolt.Options{
		Timeout: time.Millisecond, FreelistType: bolt.FreelistArrayType,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, j.errLockedDir()
	case errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrVersionMismatch) || errors.Is(err, berrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	case err != nil:
		return nil, err
	}
	if j.opened, err = os.Stat(j.path()); err != nil {
		db.Close()
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

// renameUnusable renames a file that cannot be used, and returns the message about it.
func (j *Journal) renameUnusable(prefix string, why error) (string, error) {
	aside, err := j.renameFile(prefix)
	if err != nil {
		return fmt.Sprintf("%s cannot be read: %v", j.path(), why), err
	}
	return fmt.Sprintf("%s cannot be read: %v: it is now %s, and a new one is begun: what healthd knew is lost", j.path(), why, aside), nil
}

// renameFile renames the file to prefix and the time, and deletes the oldest damaged files
// beyond keepDamaged.
func (j *Journal) renameFile(prefix string) (string, error) {
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
	entries, _ := os.ReadDir(j.dir) // an error leaves one file too many, which does no harm
	for _, e := range entries {     // sorted by name, so by time
		if strings.HasPrefix(e.Name(), damagedName) {
			damaged = append(damaged, e.Name())
		}
	}
	for _, old := range damaged[:max(0, len(damaged)-keepDamaged)] {
		_ = os.Remove(filepath.Join(j.dir, old))
	}
	return name, nil
}

// Close closes the file and unlocks the directory. It writes nothing: call it after Run
// has returned, or instead of Run.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.persistent = false
	if j.settled != nil {
		close(j.settled)
		j.settled = nil
	}
	j.mu.Unlock()
	var err error
	if j.db != nil {
		err = j.db.Close()
		j.db = nil
	}
	if j.lock != nil {
		// Close alone would not unlock it while a child that is being started has a copy of
		// the descriptor.
		err = errors.Join(err, unix.Flock(int(j.lock.Fd()), unix.LOCK_UN), j.lock.Close())
		j.lock = nil
	}
	return err
}
