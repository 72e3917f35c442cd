package report

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packed returns a file with that text.
func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const goodHead = `{"version":1,"began":"2026-01-01T00:00:00Z"}` + "\n"

func TestDamagedFilesAreRefused(t *testing.T) {
	whole := written(t, fullLedger(2))
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 4
	damaged := map[string][]byte{
		"empty":                  {},
		"no gzip":                []byte("hello"),
		"cut off":                whole[:len(whole)/2],
		"cut off in its sum":     whole[:len(whole)-3],
		"a flipped bit":          flipped,
		"no head":                packed(t, ""),
		"no version":             packed(t, `{}`),
		"half a record":          packed(t, goodHead+`{"name":"web"`),
		"no name":                packed(t, goodHead+`{"phase":1}`),
		"an unknown phase":       packed(t, goodHead+`{"name":"web","phase":9}`),
		"a negative phase":       packed(t, goodHead+`{"name":"web","phase":-1}`),
		"a service twice":        packed(t, goodHead+`{"name":"web"}{"name":"web"}`),
		"a bucket of 3 numbers":  packed(t, goodHead+`{"name":"web","hours":[[1,2,3]]}`),
		"a negative number":      packed(t, goodHead+`{"name":"web","hours":[[1,2,3,4,-5]]}`),
		"buckets out of order":   packed(t, goodHead+`{"name":"web","hours":[[2,0,0,0,0],[1,0,0,0,0]]}`),
		"a bucket twice":         packed(t, goodHead+`{"name":"web","days":[[2,0,0,0,0],[2,0,0,0,0]]}`),
		"too many buckets":       packed(t, goodHead+`{"name":"web","days":[`+strings.TrimSuffix(strings.Repeat("[1,0,0,0,0],", maxDays+1), ",")+`]}`),
		"text after the records": packed(t, goodHead+`{"name":"web"} hello`),
	}
	if !testing.Short() { // it takes long to make
		damaged["more than it may hold"] = packed(t, goodHead+`{"name":"`+strings.Repeat("a", maxFile)+`"}`)
	}
	for name, data := range damaged {
		if _, err := read(bytes.NewReader(data)); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(bytes.NewReader(packed(t, `{"version":2}`))); err == nil || err.Error() != "it is of version 2, and this healthd knows 1" {
		t.Errorf("a later version: %v", err)
	}
}

// Whatever a file holds, reading it ends with an error or with a ledger that can be used and written.
func FuzzRead(f *testing.F) {
	f.Add(goodHead + `{"name":"web","project":"shop","phase":4,"outage":7,"seen":"2026-01-01T00:00:00Z","hours":[[490000,360000,0,360000,360000]],"days":[[20000,9,0,9,9,1,2,3,4,5,0,1,2,3,4,5]]}`)
	f.Add(goodHead + `{"name":"web","hours":[[4294967295,4294967295,4294967295,4294967295,4294967295]]}`)
	f.Add(`{"version":1}{"name":"a"}{"name":"b","days":[[1,2,3,4,5],[2,2,3,4,5]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := read(bytes.NewReader(packed(t, text)))
		if err != nil {
			return
		}
		now := moment{wall: midday}
		for range 3 {
			l.look(&sight{facts: []fact{{name: "web", ready: 1, members: 2}}, complete: true}, now)
			now.wall, now.mono = now.wall.Add(savePause), now.mono+savePause
		}
		if s := l.services["web"]; s == nil && l.omitted == 0 || s != nil && s.total.Ready != 2*savePause {
			t.Errorf("the ledger does not go on: %+v", s)
		}
		if again := reopened(t, l); !slices.Equal(again.names(), l.names()) {
			t.Errorf("written: %q, read: %q", l.names(), again.names())
		}
	})
}

// A file that cannot be read is set aside once, with its content, and does no harm.
func TestUnreadableFilesAreSetAside(t *testing.T) {
	for _, tt := range []struct{ name, content, aside, told string }{
		{"damaged", "hello", "report.json.gz.damaged", "it is damaged"},
		{"newer", string(packed(t, `{"version":7}`)), "report.json.gz.version-7", "it is of version 7, and this healthd knows 1"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		l, told, err := load(dir)
		if err != nil || len(l.services) != 0 || !strings.Contains(told, tt.told) || !strings.Contains(told, tt.aside) {
			t.Errorf("%s: told %q, %v", tt.name, told, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, tt.aside)); err != nil || string(got) != tt.content {
			t.Errorf("%s: aside is %q, %v", tt.name, got, err)
		}
		if _, told, err = load(dir); told != "" || err != nil {
			t.Errorf("%s: again told %q, %v", tt.name, told, err)
		}
	}
}

// What a write leaves behind when it is killed or fails is not taken for the file.
func TestHalfWrittenFileIsNotRead(t *testing.T) {
	dir := t.TempDir()
	if err := replace(dir, func(w io.Writer) error { _, err := w.Write(written(t, fullLedger(1))); return err }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, newName), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, told, err := load(dir); err != nil || told != "" || len(l.services) != 1 {
		t.Errorf("%d services, told %q, %v", len(l.services), told, err)
	}
	if err := replace(dir, func(io.Writer) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, newName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rest of a failed write stays: %v", err)
	}
	if l, _, err := load(dir); err != nil || len(l.services) != 1 {
		t.Errorf("after a failed write: %d services, %v", len(l.services), err)
	}
}
