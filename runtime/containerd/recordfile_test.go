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
