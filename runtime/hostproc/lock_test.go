package hostproc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A lock is of one process, which others are told, and free when that gives it back.
func TestLock(t *testing.T) {
	name := fmt.Sprintf("%s of %d", t.Name(), os.Getpid())
	lock, err := TakeLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	other, err := TakeLock(t.Context(), name+", another one")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	for range 10 { // whoever asks more often than that does not fill a queue
		_, err = TakeLock(t.Context(), name)
		held, ok := errors.AsType[*Held](err)
		if !ok || held.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("process %d (hostproc.test)", os.Getpid())) {
			t.Fatalf("got %v", err)
		}
	}
	lock.Release()
	again, err := TakeLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}
