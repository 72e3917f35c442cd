package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

// A records file that is cut off, as by a crash of the host, is begun anew: it must not end
// healthd, now or at a later write.
func TestRecordFileCutOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.db")
	r, err := openRecords(file, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	write := func(r *records) {
		for i := range 100 {
			r.change(key{"default", fmt.Sprintf("%064d", i)}, func(rec *record) { rec.Created++ })
		}
		r.save()
	}
	write(r)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := 0; size <= len(whole); size += os.Getpagesize() {
		cut := filepath.Join(t.TempDir(), "records.db")
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRecords(cut, zap.NewNop())
		if err != nil {
			t.Fatalf("%d of %d bytes: %v", size, len(whole), err)
		}
		write(r)
		_ = r.close()
	}
}

// A file that is removed or replaced under healthd is written anew, with all that was in it.
func TestRecordFileThatIsMoved(t *testing.T) {
	for name, move := range map[string]func(file string) error{
		"removed with its directory": func(file string) error { return os.RemoveAll(filepath.Dir(file)) },
		"replaced": func(file string) error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("of another time"), 0o600)
		},
	} {
		file := filepath.Join(t.TempDir(), "state", "records.db")
		r, err := openRecords(file, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		r.change(key{"default", "one"}, func(rec *record) { rec.Created = 1 })
		r.save()
		if err := move(file); err != nil {
			t.Fatal(err)
		}
		r.change(key{"default", "two"}, func(rec *record) { rec.Created = 2 })
		r.save()
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		again, err := openRecords(file, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]int64{"one": 1, "two": 2} {
			if rec := again.all[key{"default", id}]; rec == nil || rec.Created != want {
				t.Errorf("%s: %s is %+v", name, id, rec)
			}
		}
		_ = again.close()
	}
}
