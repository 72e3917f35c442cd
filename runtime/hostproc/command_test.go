package hostproc

import (
	"io"
	"strings"
	"testing"
)

// What a command writes takes no memory beyond what is kept, be it written or copied.
func TestOutputIsBounded(t *testing.T) {
	w := &clippedWriter{}
	if n, err := io.Copy(w, io.LimitReader(zeros{}, 1<<20)); n != 1<<20 || err != nil {
		t.Fatal(n, err)
	}
	if w.head.Len() != 4<<10 || w.head.Cap() > 64<<10 || len(w.tail) != 4<<10 || cap(w.tail) > 64<<10 {
		t.Errorf("it keeps %d and %d bytes, with room for %d and %d", w.head.Len(), len(w.tail), w.head.Cap(), cap(w.tail))
	}
}

// The begin and the end are kept, in whatever pieces they come: most programs say at the end what they ended for.
func TestOutputsEnd(t *testing.T) {
	for _, length := range []int{0, 1, 4095, 4096, 4097, 8192, 8193, 20000} {
		text := strings.Repeat("0123456789", length/10) + strings.Repeat("x", length%10)
		for _, piece := range []int{1, 7, 4096, 30000} {
			w := &clippedWriter{}
			for rest := text; rest != ""; {
				n := min(piece, len(rest))
				if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
					t.Fatal(written, err)
				}
				rest = rest[n:]
			}
			want := text
			if length > 8192 {
				want = text[:4096] + "\n…\n" + text[length-4096:]
			}
			if w.String() != want {
				t.Errorf("of %d bytes in pieces of %d it has %d", length, piece, len(w.String()))
			}
		}
	}
}

func TestCommandThatSaysMuch(t *testing.T) {
	said, err := RunCommand(t.Context(), []string{"sh", "-c", "echo begin; head -c 1000000 /dev/zero; echo end; exit 3"}, BareEnvironment(), nil)
	if err == nil || !strings.HasPrefix(said, "begin\n") || !strings.HasSuffix(said, "end\n") || len(said) > 9<<10 {
		t.Errorf("it said %d bytes, %v", len(said), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
