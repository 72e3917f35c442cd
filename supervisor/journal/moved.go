package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// placeEvery is how often Run looks whether the file is at its path while it writes nothing.
const placeEvery = time.Minute

// moved says that the open file is not at its path any more: it, or its directory, was removed or replaced. What is
// written to it then is lost when healthd ends. A path that cannot be looked at may be as it was. It needs no mu, and may
// take long.
func (j *Journal) moved() bool {
	if j.db == nil {
		return false
	}
	at, err := os.Stat(j.path())
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || err == nil && !os.SameFile(at, j.opened)
}

// checkPlace has Run write when the file was moved.
func (j *Journal) checkPlace() {
	if j.moved() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.requestWrite(0)
	}
}

// followPath makes a new file when the open one was moved, and replaces the content of b by everything.
func (j *Journal) followPath(b *batch) error {
	if j.db != nil && !j.moved() {
		return nil
	}
	if j.db != nil {
		_ = j.db.Close()
		j.db = nil
	}
	const was = "removed or replaced while healthd used it"
	if err := j.openAgain(); err != nil {
		return fmt.Errorf("it was %s: %w", was, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.failing { // JournalBack follows
		j.failing, j.backoff = true, 0
		j.problem = fmt.Sprintf("%s was %s: all that healthd knows goes to a new one", j.path(), was)
		j.recordOwnEvent(EventJournalFailed, j.problem)
	}
	j.takeEverything(b)
	return nil
}

// openAgain opens a new file at the path. It renames one that is there: what it holds is not what this daemon knows.
func (j *Journal) openAgain() error {
	if err := os.MkdirAll(j.dir, 0o750); err != nil {
		return err
	}
	if err := j.lockAgain(); err != nil {
		return err
	}
	if _, err := os.Lstat(j.path()); err == nil {
		if _, err := j.renameFile(damagedName); err != nil {
			return err
		}
	}
	db, err := j.openDatabase()
	if err == nil {
		j.db = db
	}
	return err
}

// lockAgain locks the directory at the path, if that is another one.
func (j *Journal) lockAgain() error {
	at, err := os.Stat(j.dir)
	if err != nil {
		return err
	}
	if is, err := j.lock.Stat(); err == nil && os.SameFile(at, is) {
		return nil
	}
	old := j.lock
	if err := j.lockDir(); err != nil {
		if j.lock != nil {
			_ = j.lock.Close()
		}
		j.lock = old
		return err
	}
	return old.Close()
}

// takeEverything replaces the content of b by all that is known, for a new file. It needs mu.
func (j *Journal) takeEverything(b *batch) {
	clear(j.storedIDs)
	for id := range j.current {
		j.dirtyIDs[id] = struct{}{}
	}
	j.writtenSeq, j.takenSeq, j.outdated = 0, 0, nil
	j.metaDirty, j.unreadable = true, nil
	waiting := b.waiters
	*b = *j.takePendingLocked()
	b.waiters = append(b.waiters, waiting...)
}
