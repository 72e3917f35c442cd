package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"healthd/supervisor/core"
)

// writeFile returns a file with 300 events and 40 memories.
func writeFile(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	j := open(t, dir)
	for round := range 3 { // so that there are free pages
		for n := range 40 {
			j.Remember(remember(fmt.Sprintf("id-%02d", n), fmt.Sprint("web-", round)))
		}
		for n := range 100 {
			j.keep(event(n))
		}
		if err := j.transact(j.takePending()); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// flipBytes returns data with one byte of each text that is found in it changed.
func flipBytes(data []byte, texts ...string) []byte {
	data = bytes.Clone(data)
	for _, text := range texts {
		for at := 0; ; at++ {
			next := bytes.Index(data[at:], []byte(text))
			if next < 0 {
				break
			}
			at += next
			data[at+len(text)-1] ^= 1
		}
	}
	return data
}

// changeDatabase returns data after its database was changed.
func changeDatabase(t *testing.T, data []byte, change func(*bolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "changed")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// makePageCycle makes the root page a branch that leads to itself.
func makePageCycle(data []byte) []byte {
	data = bytes.Clone(data)
	c := &checker{r: bytes.NewReader(data), length: uint64(len(data))}
	h, _ := c.newestMetaPage()
	p := data[h.root*h.pageSize:]
	binary.NativeEndian.PutUint16(p[8:], branchPage)
	binary.NativeEndian.PutUint16(p[10:], 1)
	binary.NativeEndian.PutUint32(p[header:], header)
	binary.NativeEndian.PutUint32(p[header+4:], 1)
	binary.NativeEndian.PutUint64(p[header+8:], h.root)
	return data
}

// makeFreeListTooLong makes the list of free pages longer than any memory.
func makeFreeListTooLong(data []byte) []byte {
	data = bytes.Clone(data)
	c := &checker{r: bytes.NewReader(data), length: uint64(len(data))}
	h, _ := c.newestMetaPage()
	p := data[h.free*h.pageSize:]
	binary.NativeEndian.PutUint16(p[10:], 0xFFFF)
	binary.NativeEndian.PutUint64(p[header:], 1<<45)
	return data
}

func TestDamage(t *testing.T) {
	good := writeFile(t)
	noise := make([]byte, 1<<16)
	for n := range noise {
		noise[n] = byte(n * n >> 3)
	}
	put := func(bucket, key string, v any) func(*bolt.Tx) error {
		data, err := encode(key, v)
		return func(tx *bolt.Tx) error {
			return errors.Join(err, tx.Bucket([]byte(bucket)).Put([]byte(key), data))
		}
	}
	drop := func(bucket string) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(bucket)) }
	}
	for _, tt := range []struct {
		name    string
		data    []byte
		kept    int    // memories
		message string // of the one JournalDamaged event; empty: none
		aside   string // prefix of the name it has now
	}{
		{"nothing wrong", good, 40, "", ""},
		{"zero length", nil, 0, "", ""},
		{"garbage", noise, 0, "no valid beginning", damagedName},
		{"zeros", make([]byte, 1<<15), 0, "no valid beginning", damagedName},
		{"one byte", []byte{1}, 0, "no valid beginning", damagedName},
		{"a text", []byte("[[spec]]\n"), 0, "no valid beginning", damagedName},
		{"cut to a page", good[:4096], 0, "cut off", damagedName},
		{"cut to two pages", good[:2*4096], 0, "cut off", damagedName},
		{"cut in the middle", good[:4*4096+100], 0, "cut off", damagedName},
		{"one beginning flipped", append(flipBytes(good[:4096], "\xED\xDA\x0C\xED"), good[4096:]...), 40, "is lost: the last change, perhaps", ""},
		{"both beginnings flipped", flipBytes(good, "\xED\xDA\x0C\xED"), 0, "no valid beginning", damagedName},
		{"a cycle", makePageCycle(good), 0, "damaged: page", damagedName},
		{"endless free list", makeFreeListTooLong(good), 0, "no list of", damagedName},
		{"a bucket's name flipped", flipBytes(good, "memories"), 0, "it has 3 buckets, or others", damagedName},
		{"a bucket is missing", changeDatabase(t, good, drop(memoriesBucket)), 0, "it has 2 buckets", damagedName},
		{"a bucket too many", changeDatabase(t, good, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("more")); return err }), 0, "it has 4 buckets", damagedName},
		{"no meta", changeDatabase(t, good, drop(metaBucket)), 0, "it has no version", damagedName},
		{"a later version", changeDatabase(t, good, put(metaBucket, versionKey, 7)), 0, "it is of version 7, and this healthd knows 2", fileName + ".version-7-"},
		{"version 0", changeDatabase(t, good, put(metaBucket, versionKey, 0)), 0, "no version 0", damagedName},
		{"version is a text", changeDatabase(t, good, put(metaBucket, versionKey, "x")), 0, "version cannot be read", damagedName},
		{"one memory flipped", flipBytes(good, `"id":"id-07"`), 39, `is lost: what was known of container "id-07"`, ""},
		{"a memory of another", changeDatabase(t, good, put(memoriesBucket, "id-08", remember("id-09", ""))), 39, `container "id-08"`, ""},
		{"an unknown memory is no JSON", changeDatabase(t, good, put(memoriesBucket, "new", []int{1})), 40, `container "new"`, ""},
		{"three events flipped", flipBytes(good, `"message":"77"`), 40, "is lost: 3 events", ""},
		{"an event of a invalid key", changeDatabase(t, good, put(eventsBucket, "zzz", event(1))), 40, "is lost: 1 events", ""},
		{"boot is a number, and an unknown key", changeDatabase(t, changeDatabase(t, good, put(metaBucket, bootKey, 1)), put(metaBucket, "x", 1)), 40, `is lost: "boot", "x"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, fileName), tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			j := open(t, dir)
			message := ""
			for _, ev := range j.Events("", time.Time{}) {
				if ev.Reason == EventJournalDamaged {
					message += ev.Message
				}
			}
			if len(j.Memories()) != tt.kept || !strings.Contains(message, tt.message) || (message == "") != (tt.message == "") {
				t.Errorf("%d memories, want %d; %q, want %q", len(j.Memories()), tt.kept, message, tt.message)
			}
			aside, _ := filepath.Glob(filepath.Join(dir, fileName+".*"))
			if tt.aside == "" && len(aside) != 0 || tt.aside != "" && (len(aside) != 1 || !strings.HasPrefix(filepath.Base(aside[0]), tt.aside)) {
				t.Errorf("put aside: %v, want %s", aside, tt.aside)
			}
			if len(aside) == 1 {
				if data, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(data, tt.data) {
					t.Errorf("the damaged file is not kept as it was: %v", err)
				}
			}
			checkUsable(t, j, dir, tt.kept)
		})
	}
}

// checkUsable checks that a journal keeps what it is given, and that opening it again
// reports no damage.
func checkUsable(t *testing.T, j *Journal, dir string, kept int) {
	t.Helper()
	before, reasons := j.Last(), ownReasons(j)
	stop := run(t, j)
	j.keep(event(1))
	<-j.Remember(remember("mine", "1"))
	if err := errors.Join(stop(), j.Close()); err != nil {
		t.Fatal(err)
	}
	k := open(t, dir)
	if len(k.Memories()) != kept+1 || k.Last() != before+1 || ownReasons(k) != reasons {
		t.Errorf("%d memories, want %d; last event %d, want %d; %q, want %q; last: %v",
			len(k.Memories()), kept+1, k.Last(), before+1, ownReasons(k), reasons, k.Events("", time.Time{}))
	}
}

func TestOldDamagedFilesAreDeleted(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for n := range keepDamaged + 3 {
			if n%2 == 0 { // two at the same time, too
				time.Sleep(time.Minute)
			}
			if err := os.WriteFile(filepath.Join(dir, fileName), []byte(fmt.Sprint(n)), 0o600); err != nil {
				t.Fatal(err)
			}
			open(t, dir).Close()
		}
	})
	left, _ := filepath.Glob(filepath.Join(dir, damagedName+"*"))
	got := ""
	for _, name := range left {
		data, _ := os.ReadFile(name)
		got += string(data)
	}
	if got != "345" {
		t.Errorf("%s are left, in %v", got, left)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	_, err := Open(Config{Dir: dir})
	if !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if want := "another healthd uses " + dir + ": stop it or change state.dir"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("the first refusal opened it: %v", err)
	}
	j.Close()
	open(t, dir).Close()

	db, err := bolt.Open(filepath.Join(dir, fileName), 0o600, nil) // somebody's tool
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("the file is locked: %v", err)
	}
}

func TestUnusableDirectoryGoesOnInMemory(t *testing.T) {
	for _, tt := range []struct{ name, dir, message string }{
		{"the directory is a file", "file", "not a directory"},
		{"below a file", "file/below", "not a directory"},
		{"the file is a directory", "dir", "is not a file"},
		{"nobody may write there", "/proc/healthd", "cannot use /proc/healthd/journal.db"},
		{"no name", "nul\x00", "invalid argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(base, "file"), nil, 0o600), os.MkdirAll(filepath.Join(base, "dir", fileName), 0o750)); err != nil {
				t.Fatal(err)
			}
			dir := tt.dir
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(base, dir)
			}
			j := open(t, dir)
			stop := run(t, j)
			all := j.Events("", time.Time{})
			if len(all) != 1 || all[0].Reason != EventJournalFailed || !strings.Contains(all[0].Message, tt.message) ||
				!strings.HasSuffix(all[0].Message, "what healthd knows is lost when it ends") {
				t.Errorf("got %v, want %q", all, tt.message)
			}
			if !isClosedSoon(j.Remember(remember("a", "1"))) {
				t.Error("somebody waits for a disk that is not there")
			}
			if err := errors.Join(stop(), j.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A daemon that cannot write still keeps others out.
func TestInMemoryWithADirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, fileName), 0o750); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
}

func FuzzOpenDamaged(f *testing.F) {
	good := writeFile(f)
	end := uint32(len(good))
	var ids []string
	for n := range 40 {
		ids = append(ids, fmt.Sprintf("id-%02d", n))
	}
	f.Add(uint32(0), uint32(1), byte(1), uint32(0), byte(0), end)
	for page := uint32(0); page < end/4096; page++ {
		f.Add(page*4096+8, uint32(1), byte(3), page*4096+24, byte(1), end)
		f.Add(page*4096, uint32(4096), byte(255), uint32(0), byte(0), end)
	}
	f.Add(uint32(0), uint32(1), byte(0), uint32(0), byte(0), end/2)
	f.Fuzz(func(t *testing.T, at, count uint32, mask byte, another uint32, anotherMask byte, length uint32) {
		data := bytes.Clone(good)
		for n := range count % 8192 {
			data[(at+n)%end] ^= mask
		}
		data[another%end] ^= anotherMask
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), data[:length%(end+1)], 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, dir)
		if got := ownReasons(j); strings.Contains(got, EventJournalFailed) {
			t.Errorf("not usable: %v", j.Events("", time.Time{}))
		}
		for _, m := range j.Memories() {
			m.Written = core.Stamp{}
			newest := remember(m.ID, "web-2")
			if before := remember(m.ID, "web-1"); ownReasons(j) != "" && reflect.DeepEqual(m, before) {
				newest = before // the last transaction is missing, which is reported
			}
			if !slices.Contains(ids, m.ID) || !reflect.DeepEqual(m, newest) {
				t.Errorf("invented: %s=%s", m.ID, m.Name)
			}
		}
		j.db.(*bolt.DB).NoSync = true
		for _, id := range ids { // so that every page of them is written
			j.Remember(remember(id, "web-new"))
		}
		checkUsable(t, j, dir, len(ids))
	})
}
