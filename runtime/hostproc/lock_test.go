package hostproc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	for range 10 { // asking does not fill a queue
		_, err = TakeLock(t.Context(), name)
		held, ok := errors.AsType[*Held](err)
		if !ok || held.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("process %d (hostproc.test)", os.Getpid())) {
			t.Fatalf("got %v", err)
		}
	}
	if held, _ := errors.AsType[*Held](err); held.Stranger {
		t.Error("it is taken for a stranger")
	}
	lock.Release()
	again, err := TakeLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}

// Any user may take the name of a lock. What does not answer is no healthd.
func TestLockOfAStranger(t *testing.T) {
	for _, backlog := range []int{-1, 0} { // of a socket that does not listen, and of one that takes no connection
		name := fmt.Sprintf("%s of %d, %d", t.Name(), os.Getpid(), backlog)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		sum := sha256.Sum256([]byte(name))
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@healthd-%x", sum[:16])}); err != nil {
			t.Fatal(err)
		}
		tries := 1
		if backlog >= 0 {
			if err := unix.Listen(fd, backlog); err != nil {
				t.Fatal(err)
			}
			tries = 3 // the first ones find room in its queue
		}
		var held *Held
		for range tries {
			_, err = TakeLock(t.Context(), name)
			var ok bool
			if held, ok = errors.AsType[*Held](err); !ok {
				t.Fatalf("backlog %d: got %v", backlog, err)
			}
		}
		if !held.Stranger {
			t.Errorf("backlog %d: %v is taken for healthd", backlog, held)
		}
	}
}
