package recorder

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
)

func TestExcess(t *testing.T) {
	now := began.Add(maxAge)
	record := func(key string, age time.Duration, bytes int) *kept {
		return &kept{RecordInfo: supervisor.RecordInfo{Time: now.Add(-age), Bytes: bytes}, key: key}
	}
	repeat := func(n int, f func(i int) *kept) (all []*kept) {
		for i := range n {
			all = append(all, f(n-i)) // the oldest first
		}
		return all
	}
	inMemory := func(k *kept) *kept { k.data = []byte{}; return k }
	for _, tt := range []struct {
		name string
		all  []*kept
		gone int // the oldest
	}{
		{"nothing", nil, 0},
		{"as many as may be", repeat(maxOfOne, func(i int) *kept { return record("a", time.Duration(i), 1) }), 0},
		{"too many of one", repeat(maxOfOne+3, func(i int) *kept { return record("a", time.Duration(i), 1) }), 3},
		{"too large of one", repeat(10, func(i int) *kept { return record("a", time.Duration(i), 1<<20) }), 2},
		{"too old", []*kept{record("a", maxAge+1, 1), record("b", maxAge, 1)}, 1},
		{"too many", repeat(maxAll+5, func(i int) *kept { return record(fmt.Sprint(i), time.Duration(i), 1) }), 5},
		{"too large", repeat(300, func(i int) *kept { return record(fmt.Sprint(i), time.Duration(i), 1<<20) }), 300 - 256},
		{"too many in memory", repeat(maxInMemory+4, func(i int) *kept { return inMemory(record(fmt.Sprint(i), time.Duration(i), 1)) }), 4},
		{"too large in memory", repeat(20, func(i int) *kept { return inMemory(record(fmt.Sprint(i), time.Duration(i), 1<<20)) }), 4},
	} {
		gone := excess(tt.all, now)
		for i, k := range tt.all {
			if gone[k] != (i < tt.gone) {
				t.Errorf("%s: record %d goes: %v, want the %d oldest to go", tt.name, i, gone[k], tt.gone)
			}
		}
	}
}

// The records outlive the daemon. Their files are for their owner only, and have no names that
// containers choose.
func TestRecordsOutliveTheDaemon(t *testing.T) {
	dir, e := filepath.Join(t.TempDir(), "records"), &fakeEngine{}
	const hostile = "../../etc/passwd"
	r := newRecorder(e, dir)
	r.Record(t.Context(), crash(hostile, 3))
	r.Record(t.Context(), crash(hostile, 4))
	settle(t, r)
	foreign := filepath.Join(dir, "notes.txt")
	half := filepath.Join(dir, tempPrefix+"123")
	for _, file := range []string{foreign, half} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := newRecorder(e, dir)
	want, got := r.Find(viewOf(hostile), ""), again.Find(nil, hostile)
	if len(got) != 2 || !reflect.DeepEqual(got, want) || got[0].Run != 4 || got[1].Run != 3 {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if record, err := again.Read(got[0]); err != nil || record.ExitCode != 4 || record.Container != hostile {
		t.Errorf("got %+v, %v", record, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what was half written is still there")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 || strings.Contains(f.Name(), "passwd") {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if found := again.Find(nil, "passwd"); len(found) > 0 {
		t.Errorf("another name: %+v", found)
	}
	if found := again.Find(viewOf("other"), ""); len(found) > 0 {
		t.Errorf("another container: %+v", found)
	}
}

// Only the newest are kept, in files, too.
func TestOldRecordsGo(t *testing.T) {
	dir, e := t.TempDir(), &fakeEngine{}
	r := newRecorder(e, dir)
	for code := range maxOfOne + 5 {
		r.Record(t.Context(), crash("web-1", code+1))
		settle(t, r)
	}
	infos := r.Find(viewOf("web-1"), "")
	files, err := os.ReadDir(dir)
	if err != nil || len(infos) != maxOfOne || len(files) != maxOfOne || infos[0].Run != maxOfOne+5+2 {
		t.Errorf("%d records in %d files, the newest is %+v; %v", len(infos), len(files), infos[0], err)
	}
	r.store.tidy(began.Add(2 * maxAge))
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("of long ago: %v, %v", files, err)
	}
}

// A record that is damaged is dropped, and harms no other.
func TestDamagedRecords(t *testing.T) {
	good, err := encode(&supervisor.FlightRecord{Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	w, _ := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	_, _ = w.Write([]byte(`{"message":"`))
	_, _ = w.Write(bytes.Repeat([]byte("x"), maxRecord))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-5], "no gzip": []byte("{}"), "a bomb": bomb.Bytes(),
		"flipped": append(bytes.Clone(good[:len(good)-6]), append([]byte{good[len(good)-6] ^ 1}, good[len(good)-5:]...)...),
	} {
		dir, e := t.TempDir(), &fakeEngine{}
		r := newRecorder(e, dir)
		r.Record(t.Context(), crash("web-1", 3))
		r.Record(t.Context(), crash("web-1", 4))
		settle(t, r)
		infos := r.Find(viewOf("web-1"), "")
		if err := os.WriteFile(filepath.Join(dir, infos[0].File), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r = newRecorder(e, dir)
		if _, err := r.Read(infos[0]); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: got %v", name, err)
		}
		left := r.Find(viewOf("web-1"), "")
		if len(left) != 1 || left[0].Run != infos[1].Run {
			t.Errorf("%s: left are %+v", name, left)
		}
		if _, err := r.Read(infos[0]); err == nil {
			t.Errorf("%s: it can still be read", name)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%s: files %v, %v", name, files, err)
		}
	}
}

func TestFileNames(t *testing.T) {
	a, b := strings.Repeat("a", 24), strings.Repeat("b", 24)
	k := parseName(a + "-" + b + "-7-1767323045000-post_start.json.gz")
	if k == nil || k.key != a || k.name != b || k.Run != 7 || !k.Time.Equal(time.UnixMilli(1767323045000)) || k.Cause != "post_start" || k.fileName() != k.File {
		t.Errorf("got %+v", k)
	}
	for _, name := range []string{"", "x.json.gz", a + "-" + b + "-7-1-x.json.gz.tmp", a + "-" + b + "-99999999999-1-x.json.gz", a + "-" + b + "-1-1-../x.json.gz"} {
		if k := parseName(name); k != nil {
			t.Errorf("%q is the name of %+v", name, k)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := encode(describe(hang("web-1")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

func FuzzFileName(f *testing.F) {
	f.Add(strings.Repeat("a", 24) + "-" + strings.Repeat("b", 24) + "-7-1767323045000-crash.json.gz")
	f.Fuzz(func(t *testing.T, name string) {
		if k := parseName(name); k != nil && (filepath.Base(name) != name || k.Run < 0 || strings.HasPrefix(name, ".")) {
			t.Errorf("%q is the name of %+v", name, k)
		}
	})
}
