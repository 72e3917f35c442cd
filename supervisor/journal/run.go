package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// patience is how long a transaction may take before nobody waits for it any more.
const patience = 5 * time.Second

// errMemoryOnly says that the disk was given up.
var errMemoryOnly = errors.New("it is in memory only")

// Run writes what is recorded and remembered to the disk until ctx ends, and then
// what is left. It returns an error when that could not be written. Call it once,
// also for a journal in memory, and end it after those who record and remember:
// what comes after it is not written. It outlasts ctx for as long as the disk
// does not answer.
func (j *Journal) Run(ctx context.Context) error {
	// bbolt reads the file as memory: where somebody has cut it off, that is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	timer := time.NewTimer(lazy)
	defer timer.Stop()
	for ctx.Err() == nil {
		d, due := j.wait()
		if due && d <= 0 {
			j.transact(j.take())
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
		}
	}
	return j.finish()
}

// finish writes what is left. Nobody is kept waiting afterwards.
func (j *Journal) finish() error {
	j.mu.Lock()
	var b *batch
	if j.keeping && !j.due.IsZero() {
		b = j.takeAll()
	}
	j.keeping = false
	j.mu.Unlock()
	if b == nil {
		return nil
	}
	if err := j.transact(b); err != nil {
		return fmt.Errorf("cannot keep what is known: %w", err)
	}
	return nil
}

// transact writes b. A file that bbolt cannot go on with is put aside, once, and a
// new one gets everything.
func (j *Journal) transact(b *batch) error {
	err := j.write(b)
	if broken(err) {
		err = j.renew(b, err)
	}
	switch {
	case err == nil:
		j.succeeded(b)
	case broken(err):
		j.giveUp(b, err)
	default:
		j.failed(b, j.lossy("write", err)+", unless it can be written before")
	}
	return err
}

// write carries one transaction out. Whoever waits for a disk that does not answer
// is told after some time, as if it had failed.
func (j *Journal) write(b *batch) (err error) {
	told := make(chan struct{})
	watch := time.AfterFunc(patience, func() {
		defer close(told)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.fail(b, j.lossy("write", fmt.Errorf("it takes longer than %v", patience))+", unless it goes on before")
	})
	defer func() {
		if p := recover(); p != nil {
			err = panicked{p}
		}
		if !watch.Stop() {
			<-told
		}
	}()
	return j.db.Update(func(tx *bolt.Tx) error { return j.put(tx, b) })
}

// panicked is what bbolt says of a file that is not as it left it. Its locks are in
// an unknown state then: no other call of it would be sure to return.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprint(p.value) }

// broken says that the same database cannot be tried again.
func broken(err error) bool {
	_, is := errors.AsType[panicked](err)
	return is || errors.Is(err, berrors.ErrInvalidMapping) || errors.Is(err, errMemoryOnly)
}

// renew begins a new file with all that is known, in place of one that broke, and
// makes b that.
func (j *Journal) renew(b *batch, why error) error {
	j.db = nil // not closed: see panicked
	if j.renewed {
		return fmt.Errorf("%w: %w", errMemoryOnly, why)
	}
	j.renewed = true
	aside, err := j.setAside(damagedName)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errMemoryOnly, why, err)
	}
	db, err := j.openDatabase()
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errMemoryOnly, why, err)
	}
	j.db = db
	j.mu.Lock()
	clear(j.stored)
	for id := range j.kept {
		j.dirty[id] = struct{}{}
	}
	j.written, j.meta, j.junk = 0, true, nil
	j.tell(EventJournalDamaged, fmt.Sprintf("%s broke: %v: it is now %s, and a new one holds all that is known", j.path(), why, aside))
	waiting := b.waiting
	*b = *j.takeAll()
	b.waiting = append(b.waiting, waiting...)
	j.mu.Unlock()
	return j.write(b)
}

// giveUp goes on in memory only.
func (j *Journal) giveUp(b *batch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.db = nil
	j.failing = false // whatever was told, this is worse
	j.fail(b, j.lossy("go on with", err))
	j.keeping, j.due = false, time.Time{}
}

// lossy says what could not be done and what that means.
func (j *Journal) lossy(what string, err error) string {
	return fmt.Sprintf("cannot %s %s: %v: what healthd knows is lost when it ends", what, j.path(), err)
}

func back(dropped uint64) string {
	if dropped == 0 {
		return "the journal is written again"
	}
	return fmt.Sprintf("the journal is written again; %d events are missing in it", dropped)
}
