package hostproc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
)

// endless repeats a text, and counts what is read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	e.read += n
	return n, nil
}

// A process makes its own environment: gigabytes of it, without capabilities.
func TestMarkAmongVariables(t *testing.T) {
	const mark = MarkVariable + "=probe:1"
	long := strings.Repeat("x", 3*maxMark)
	for _, tt := range []struct{ name, environ, want string }{
		{"none", "", ""},
		{"first", mark + "\x00A=1\x00", mark},
		{"last", "A=1\x00\x00B\x00" + mark + "\x00", mark},
		{"without an end", "A=1\x00" + mark, mark},
		{"after a long one", "A=" + long + "\x00" + mark + "\x00", mark},
		{"inside a long one", "A=" + long[:maxMark-2] + mark + "\x00", ""},
		{"inside another", "A=" + mark + "\x00", ""},
		{"too long itself", mark + long + "\x00", ""},
		{"another's", mark[:len(MarkVariable)] + "2=x\x00", ""},
	} {
		if got := markIn(strings.NewReader(tt.environ)); got != tt.want {
			t.Errorf("%s: got %.100q, want %q", tt.name, got, tt.want)
		}
	}
	for _, text := range []string{"A=1\x00", "x", "\x00", mark, mark + long} {
		environ := &endless{text: strings.Repeat(text, 1000)}
		if allocated := testing.AllocsPerRun(1, func() { environ.read = 0; markIn(environ) }); allocated > 10 || environ.read > maxEnviron {
			t.Errorf("of %.20q without an end %d bytes were read, with %v allocations", text, environ.read, allocated)
		}
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(path, 100); err != nil || len(b) != 100 {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	if b, err := readFile(path, 99); !errors.Is(err, errTooLong) || b != nil {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	if b, err := readFile("/dev/zero", maxCgroup); !errors.Is(err, errTooLong) || b != nil {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

// A read that the kernel lets wait holds up no other, and is not tried again while it waits. Nothing is written into the FIFO.
func TestBlockedRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "environ")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 9)
	read := func() (string, error) {
		return fromMemory(path, func(r io.Reader) string {
			begun <- struct{}{}
			b, _ := io.ReadAll(r)
			return string(b)
		})
	}
	for range 3 {
		if text, err := read(); text != "" || !errors.Is(err, errBlocked) {
			t.Fatalf("got %q, %v", text, err)
		}
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when there is a reader
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	writer.Close()
	patience.Until(t, "the read ends", func() error {
		if blocked.refuses(path) {
			return errBlocked
		}
		return nil
	})
	if len(begun) > 0 {
		t.Error("it was read again while it was blocked")
	}
}

// The threads that wait in vain are few, however many processes block their reads.
func TestBlockedReadsAreBounded(t *testing.T) {
	b := blockedReads{paths: map[string]bool{}}
	for n := range mostBlocked {
		if b.refuses("new") {
			t.Fatalf("%d blocked reads are too many", n)
		}
		b.set(strings.Repeat("x", n+1), true)
	}
	if !b.refuses("new") {
		t.Error("one more may block")
	}
	if b.set("x", false); b.refuses("new") || !b.refuses("xx") {
		t.Error("one that has ended counts, or another does not")
	}
}

func TestPipesOfManyFiles(t *testing.T) {
	var last string
	for range 300 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		last, _ = os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(int(w.Fd()))))
	}
	if !strings.HasPrefix(last, "pipe:") || !holdsAny(os.Getpid(), map[string]bool{last: true}) || holdsAny(os.Getpid(), map[string]bool{"pipe:[0]": true}) {
		t.Errorf("the pipe %q is not found among many", last)
	}
}
