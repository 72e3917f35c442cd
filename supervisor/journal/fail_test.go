package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"healthd/supervisor/core"
)

// failingDatabase fails as its function says.
type failingDatabase struct {
	database
	how   atomic.Value // func(n int) error; the n-th time it fails
	tries atomic.Int64
}

func (f *failingDatabase) Update(fn func(*bolt.Tx) error) error {
	if how, _ := f.how.Load().(func(int) error); how != nil {
		n := int(f.tries.Add(1))
		if err := how(n); err != nil {
			return err
		}
	}
	return f.database.Update(fn)
}

func diskFull(int) error { return &os.PathError{Op: "write", Path: fileName, Err: syscall.ENOSPC} }

func noFailure(int) error { return nil }

// openWithFailingDatabase is called in a synctest bubble.
func openWithFailingDatabase(t *testing.T, dir string, how func(int) error) (*Journal, *failingDatabase) {
	j := open(t, dir)
	f := &failingDatabase{database: j.db}
	f.how.Store(how)
	j.db = f
	return j, f
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, f := openWithFailingDatabase(t, dir, noFailure)
		run(t, j)
		<-j.Remember(remember("a", "1"))
		<-j.Remember(remember("b", "1"))
		f.how.Store(diskFull)
		f.tries.Store(0)
		begin := time.Now()
		<-j.Remember(remember("a", "2"))
		for n := range 5 {
			if !isClosedSoon(j.Remember(remember("a", fmt.Sprint(n)))) {
				t.Error("somebody waits for a full disk")
			}
		}
		j.Remember(remember("c", "1"))
		j.Forget("b")
		j.Forget("c")
		if j.Up() {
			t.Error("a journal on a full disk is up")
		}
		if waited := time.Since(begin); waited != 0 || ownReasons(j) != "JournalFailed" {
			t.Errorf("%s after %v", ownReasons(j), waited)
		}
		for n := range Size + 100 {
			j.keep(event(n))
		}
		for _, want := range []time.Duration{1, 3, 7, 15, 31, 63, 123, 183} {
			tries := f.tries.Load()
			time.Sleep(want*time.Second - 1 - time.Since(begin))
			synctest.Wait()
			if f.tries.Load() != tries {
				t.Errorf("tried too early before %ds", want)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if f.tries.Load() != tries+1 {
				t.Errorf("%d tries after %ds, want %d", f.tries.Load(), want, tries+1)
			}
		}
		f.how.Store(noFailure)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !j.Up() {
			t.Error("it is written again, and not up")
		}
		all := j.Events("", time.Time{})
		if got := all[len(all)-1]; got.Reason != EventJournalBack || !strings.HasSuffix(got.Message, "101 events are missing in it") {
			t.Errorf("last event %+v", got)
		}
		f.how.Store(diskFull)
		<-j.Remember(remember("a", "5")) // reported again
		f.how.Store(noFailure)
		if got := ownReasons(j); got != "JournalFailed JournalBack JournalFailed" {
			t.Errorf("reported: %s", got)
		}
	})
	k := open(t, dir)
	if got := ownReasons(k); memories(k) != "a=5" || !strings.HasPrefix(got, "JournalFailed JournalBack JournalFailed") {
		t.Errorf("%s, %s", memories(k), got)
	}
}

// However the disk fails and recovers, in the end it holds what was remembered.
func TestFailedTransactionsLoseNothing(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		j, f := openWithFailingDatabase(t, dir, func(n int) error {
			if n%3 != 0 {
				return diskFull(n)
			}
			return nil
		})
		run(t, j)
		for n := range 500 {
			id := fmt.Sprint("id", n*7%13)
			if n%5 == 0 {
				j.Forget(id)
				delete(want, id)
			} else {
				done := j.Remember(remember(id, fmt.Sprint(n)))
				want[id] = fmt.Sprint(n)
				if n%4 == 0 {
					<-done
				}
			}
			if n%10 == 0 {
				time.Sleep(5 * time.Second)
			}
		}
		f.how.Store(noFailure)
	})
	k := open(t, dir)
	for _, m := range k.Memories() {
		if want[m.ID] != m.Name {
			t.Errorf("%s=%s, want %q", m.ID, m.Name, want[m.ID])
		}
	}
	if len(k.Memories()) != len(want) {
		t.Errorf("%d memories, want %d", len(k.Memories()), len(want))
	}
}

func TestRunEndsWithAFullDisk(t *testing.T) {
	j, _ := openWithFailingDatabase(t, t.TempDir(), diskFull)
	done := j.Remember(remember("a", "1"))
	if err := run(t, j)(); !errors.Is(err, syscall.ENOSPC) || !isClosedSoon(done) {
		t.Errorf("%v, answered %v", err, isClosedSoon(done))
	}
}

func TestDiskThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		j, _ := openWithFailingDatabase(t, dir, func(int) error { <-answer; return nil })
		stop := run(t, j)
		begin := time.Now()
		<-j.Remember(remember("a", "1"))
		if waited := time.Since(begin); waited != writeTimeout || ownReasons(j) != "JournalFailed" {
			t.Errorf("%s after %v", ownReasons(j), waited)
		}
		if !isClosedSoon(j.Remember(remember("a", "2"))) {
			t.Error("everybody waits for it again")
		}
		close(answer)
		synctest.Wait()
		if err := stop(); err != nil || ownReasons(j) != "JournalFailed JournalBack" {
			t.Errorf("%s, %v", ownReasons(j), err)
		}
	})
	if k := open(t, dir); memories(k) != "a=2" {
		t.Error(memories(k))
	}
}

func TestBrokenFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	j, f := openWithFailingDatabase(t, dir, noFailure)
	stop := run(t, j)
	j.keep(event(1))
	j.BootTaken("docker")
	<-j.Remember(remember("a", "1"))
	<-j.Remember(remember("b", "1"))
	f.how.Store(func(int) error { panic("page 7 already freed") })
	j.Forget("b")
	<-j.Remember(remember("c", "1"))
	if err := errors.Join(stop(), j.Close()); err != nil {
		t.Error(err)
	}
	k := open(t, dir)
	if memories(k) != "a=1 c=1" || k.Last() != 2 || ownReasons(k) != "JournalDamaged" || k.Boot("docker") != "boot-1" {
		t.Errorf("%s, last %d, %s", memories(k), k.Last(), ownReasons(k))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, damagedName+"*")); len(left) != 1 {
		t.Errorf("put aside: %v", left)
	}
}

func TestFileBrokenTwiceGoesOnInMemory(t *testing.T) {
	j, f := openWithFailingDatabase(t, t.TempDir(), func(int) error { panic("page 7 already freed") })
	run(t, j)
	<-j.Remember(remember("a", "1"))
	f.database, j.db = j.db, f
	<-j.Remember(remember("a", "2"))
	if !isClosedSoon(j.Remember(remember("a", "3"))) || ownReasons(j) != "JournalDamaged JournalFailed" {
		t.Error(ownReasons(j))
	}
}

// bbolt maps the file into memory: reading beyond its truncated end is a fault.
func TestFileTruncatedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	stop := run(t, j)
	for n := range 300 {
		j.Remember(&core.Memory{Facts: core.Facts{ID: fmt.Sprint(n), Name: strings.Repeat("x", 500), Kept: &core.Kept{}}})
	}
	<-j.Remember(remember("a", "1"))
	if err := os.Truncate(filepath.Join(dir, fileName), 0); err != nil {
		t.Fatal(err)
	}
	<-j.Remember(remember("a", "2"))
	if err := errors.Join(stop(), j.Close()); err != nil || ownReasons(j) != "JournalDamaged" {
		t.Errorf("%v, %s", err, ownReasons(j))
	}
	if k := open(t, dir); len(k.Memories()) != 301 {
		t.Errorf("%d memories", len(k.Memories()))
	}
}
