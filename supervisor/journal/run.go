package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// writeTimeout is how long a transaction may take before waiters are released.
const writeTimeout = 5 * time.Second

// errMemoryOnly says that the file cannot be used any more.
var errMemoryOnly = errors.New("it is in memory only")

// Run writes what is recorded and remembered to the disk until ctx ends, and then the
// rest. It returns an error when the rest could not be written. Call it once, also for a
// journal without a file, and end it after all callers of Record and Remember: later
// calls are not written. While the disk does not answer, Run does not return.
func (j *Journal) Run(ctx context.Context) error {
	// bbolt maps the file into memory: reading beyond its end, after somebody truncated
	// it, is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	timer := time.NewTimer(seenWriteDelay)
	defer timer.Stop()
	look := time.NewTicker(placeEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		d, due := j.untilNextWrite()
		if due && d <= 0 {
			j.transact(j.takePending())
			continue
		}
		var elapsed <-chan time.Time
		if due {
			timer.Reset(d)
			elapsed = timer.C
		}
		select {
		case <-ctx.Done():
		case <-j.wake:
		case <-elapsed:
		case <-look.C:
			j.checkPlace()
		}
	}
	return j.writeRest()
}

// writeRest writes what is pending, and releases all waiters.
func (j *Journal) writeRest() error {
	moved := j.moved()
	j.mu.Lock()
	j.settleFoldsLocked()
	var b *batch
	if j.persistent && (!j.due.IsZero() || moved) {
		b = j.takePendingLocked()
	}
	j.persistent = false
	j.mu.Unlock()
	if b == nil {
		return nil
	}
	if err := j.transact(b); err != nil {
		return fmt.Errorf("cannot keep what is known: %w", err)
	}
	return nil
}

// transact writes b. A file that bbolt cannot go on with is renamed, once, and
// everything is written to a new one. So it is when the file was moved.
func (j *Journal) transact(b *batch) error {
	err := j.followPath(b)
	if err == nil {
		err = j.write(b)
	}
	if isBroken(err) {
		err = j.replaceFile(b, err)
	}
	switch {
	case err == nil:
		j.writeSucceeded(b)
	case isBroken(err):
		j.goOnInMemory(b, err)
	default:
		j.writeFailed(b, j.failureMessage("write", err)+", unless it can be written before")
	}
	return err
}

// write carries out one transaction. When it takes longer than writeTimeout, waiters are
// released as if it had failed.
func (j *Journal) write(b *batch) (err error) {
	reported := make(chan struct{})
	timeout := time.AfterFunc(writeTimeout, func() {
		defer close(reported)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.reportFailure(b, j.failureMessage("write", fmt.Errorf("it takes longer than %v", writeTimeout))+", unless it goes on before")
	})
	defer func() {
		if p := recover(); p != nil {
			err = bboltPanic{p}
		}
		if !timeout.Stop() {
			<-reported
		}
	}()
	var size int64
	err = j.db.Update(func(tx *bolt.Tx) error {
		size = tx.Size()
		return j.applyBatch(tx, b)
	})
	if err == nil {
		j.releasePages(size)
	}
	return err
}

// bboltPanic is the value of a panic of bbolt, for example about a file that something else
// changed. bbolt's locks may be held after that, so another call may never return.
type bboltPanic struct{ value any }

func (p bboltPanic) Error() string { return fmt.Sprint(p.value) }

// isBroken says that the open database cannot be used again.
func isBroken(err error) bool {
	_, is := errors.AsType[bboltPanic](err)
	return is || errors.Is(err, berrors.ErrInvalidMapping) || errors.Is(err, errMemoryOnly)
}

// replaceFile renames a broken file and writes everything to a new one. It replaces the
// content of b by everything.
func (j *Journal) replaceFile(b *batch, why error) error {
	j.db = nil // not closed: see bboltPanic
	if j.replaced {
		return fmt.Errorf("%w: %w", errMemoryOnly, why)
	}
	j.replaced = true
	aside, err := j.renameFile(damagedName)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errMemoryOnly, why, err)
	}
	db, err := j.openDatabase()
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errMemoryOnly, why, err)
	}
	j.db = db
	j.mu.Lock()
	j.recordOwnEvent(EventJournalDamaged, fmt.Sprintf("%s broke: %v: it is now %s, and a new one holds all that is known", j.path(), why, aside))
	j.takeEverything(b)
	j.mu.Unlock()
	return j.write(b)
}

// goOnInMemory stops writing for the rest of the daemon's life.
func (j *Journal) goOnInMemory(b *batch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.db = nil
	j.failing = false // this is worse than what was reported before: report it, too
	j.reportFailure(b, j.failureMessage("go on with", err))
	j.persistent, j.due, j.outdated = false, time.Time{}, nil
}

// failureMessage says what could not be done, what to do about it, and what follows.
func (j *Journal) failureMessage(what string, err error) string {
	return fmt.Sprintf("cannot %s %s: %v%s: what healthd knows is lost when it ends", what, j.path(), err, j.remedy(err))
}

// remedy says what to do about a directory that healthd may not write to. Under systemd the
// whole file system is read-only for it but for the directories that the unit names.
func (j *Journal) remedy(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Sprintf(" (make %s, write [Service] ReadWritePaths=%[1]s with systemctl edit healthd, and restart healthd)", j.dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf(" (give %s to the user that healthd runs as: chown -R USER %[1]s)", j.dir)
	}
	return ""
}

func backMessage(missing uint64) string {
	if missing == 0 {
		return "the journal is written again"
	}
	return fmt.Sprintf("the journal is written again; %d events are missing in it", missing)
}
