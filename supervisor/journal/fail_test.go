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

// flaky fails as it is told to.
type flaky struct {
	database
	how   atomic.Value // func(n int) error; the n-th time it fails
	tries atomic.Int64
}

func (f *flaky) Update(fn func(*bolt.Tx) error) error {
	if how, _ := f.how.Load().(func(int) error); how != nil {
		n := int(f.tries.Add(1))
		if err := how(n); err != nil {
			return err
		}
	}
	return f.database.Update(fn)
}

func full(int) error { return &os.PathError{Op: "write", Path: fileName, Err: syscall.ENOSPC} }

func fine(int) error { return nil }

// openFlaky is called in a bubble.
func openFlaky(t *testing.T, dir string, how func(int) error) (*Journal, *flaky) {
	j := open(t, dir)
	f := &flaky{database: j.db}
	f.how.Store(how)
	j.db = f
	return j, f
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, f := openFlaky(t, dir, fine)
		run(t, j)
		<-j.Remember(remember("a", "1"))
		<-j.Remember(remember("b", "1"))
		f.how.Store(full)
		f.tries.Store(0)
		begin := time.Now()
		<-j.Remember(remember("a", "2"))
		for n := range 5 {
			if !answers(j.Remember(remember("a", fmt.Sprint(n)))) {
				t.Error("somebody waits for a full disk")
			}
		}
		j.Remember(remember("c", "1"))
		j.Forget("b")
		j.Forget("c")
		if waited := time.Since(begin); waited != 0 || reasons(j) != "JournalFailed" {
			t.Errorf("%s after %v", reasons(j), waited)
		}
		for n := range Size + 100 {
			j.Record(event(n))
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
		f.how.Store(fine)
		time.Sleep(time.Minute)
		synctest.Wait()
		all := j.Events("", time.Time{})
		if got := all[len(all)-1]; got.Reason != EventJournalBack || !strings.HasSuffix(got.Message, "101 events are missing in it") {
			t.Errorf("last event %+v", got)
		}
		f.how.Store(full)
		<-j.Remember(remember("a", "5")) // told anew
		f.how.Store(fine)
		if got := reasons(j); got != "JournalBack JournalFailed" {
			t.Errorf("told: %s", got)
		}
	})
	k := open(t, dir)
	if got := reasons(k); memories(k) != "a=5" || !strings.HasPrefix(got, "JournalBack JournalFailed") {
		t.Errorf("%s, %s", memories(k), got)
	}
}

// However a disk fails and comes back, what is on it in the end is what was told.
func TestNothingIsLostByFailedTransactions(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		j, f := openFlaky(t, dir, func(n int) error {
			if n%3 != 0 {
				return full(n)
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
		f.how.Store(fine)
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

func TestEndWithAFullDisk(t *testing.T) {
	j, _ := openFlaky(t, t.TempDir(), full)
	done := j.Remember(remember("a", "1"))
	if err := run(t, j)(); !errors.Is(err, syscall.ENOSPC) || !answers(done) {
		t.Errorf("%v, answered %v", err, answers(done))
	}
}

func TestDiskThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		j, _ := openFlaky(t, dir, func(int) error { <-answer; return nil })
		stop := run(t, j)
		begin := time.Now()
		<-j.Remember(remember("a", "1"))
		if waited := time.Since(begin); waited != patience || reasons(j) != "JournalFailed" {
			t.Errorf("%s after %v", reasons(j), waited)
		}
		if !answers(j.Remember(remember("a", "2"))) {
			t.Error("everybody waits for it again")
		}
		close(answer)
		synctest.Wait()
		if err := stop(); err != nil || reasons(j) != "JournalFailed JournalBack" {
			t.Errorf("%s, %v", reasons(j), err)
		}
	})
	if k := open(t, dir); memories(k) != "a=2" {
		t.Error(memories(k))
	}
}

func TestFileThatBreaksIsReplaced(t *testing.T) {
	dir := t.TempDir()
	j, f := openFlaky(t, dir, fine)
	stop := run(t, j)
	j.Record(event(1))
	j.BootTaken()
	<-j.Remember(remember("a", "1"))
	<-j.Remember(remember("b", "1"))
	f.how.Store(func(int) error { panic("page 7 already freed") })
	j.Forget("b")
	<-j.Remember(remember("c", "1"))
	if err := errors.Join(stop(), j.Close()); err != nil {
		t.Error(err)
	}
	k := open(t, dir)
	if memories(k) != "a=1 c=1" || k.Last() != 2 || reasons(k) != "JournalDamaged" || k.Boot() != "boot-1" {
		t.Errorf("%s, last %d, %s", memories(k), k.Last(), reasons(k))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, damagedName+"*")); len(left) != 1 {
		t.Errorf("put aside: %v", left)
	}
}

func TestFileThatBreaksTwiceIsGivenUp(t *testing.T) {
	j, f := openFlaky(t, t.TempDir(), func(int) error { panic("page 7 already freed") })
	run(t, j)
	<-j.Remember(remember("a", "1"))
	f.database, j.db = j.db, f
	<-j.Remember(remember("a", "2"))
	if !answers(j.Remember(remember("a", "3"))) || reasons(j) != "JournalDamaged JournalFailed" {
		t.Error(reasons(j))
	}
}

// bbolt reads the file as memory, where what was cut off is a fault.
func TestFileIsCutOffMeanwhile(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	stop := run(t, j)
	for n := range 300 {
		j.Remember(core.Memory{Facts: core.Facts{ID: fmt.Sprint(n), Name: strings.Repeat("x", 500)}})
	}
	<-j.Remember(remember("a", "1"))
	if err := os.Truncate(filepath.Join(dir, fileName), 0); err != nil {
		t.Fatal(err)
	}
	<-j.Remember(remember("a", "2"))
	if err := errors.Join(stop(), j.Close()); err != nil || reasons(j) != "JournalDamaged" {
		t.Errorf("%v, %s", err, reasons(j))
	}
	if k := open(t, dir); len(k.Memories()) != 301 {
		t.Errorf("%d memories", len(k.Memories()))
	}
}
