package hostproc

import (
	"io"
	"testing"
)

// What a command writes takes no memory beyond the begin that is kept, be it written or copied.
func TestOutputIsBounded(t *testing.T) {
	w := &headWriter{}
	if n, err := io.Copy(w, io.LimitReader(zeros{}, 1<<20)); n != 1<<20 || err != nil {
		t.Fatal(n, err)
	}
	if w.head.Len() != 4<<10 || w.head.Cap() > 64<<10 {
		t.Errorf("it keeps %d bytes, with room for %d", w.head.Len(), w.head.Cap())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
