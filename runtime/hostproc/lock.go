package hostproc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is a lock that one process of a network namespace holds at a time. It ends with the process.
type Lock struct{ listener net.Listener }

// Held says which process has a Lock that another one wants.
type Held struct {
	PID     int    // 0: this process does not see it
	Program string // as it calls itself; perhaps empty
}

func (h *Held) Error() string {
	if h.PID == 0 {
		return "a process that is not to be seen from here has it"
	}
	return fmt.Sprintf("process %d (%s) has it", h.PID, h.Program)
}

// TakeLock takes the lock for what has that name. The error is a *Held if root or the same user has it. Of another user's
// process, which cannot be meant, there is neither a lock nor an error.
func TakeLock(ctx context.Context, name string) (*Lock, error) {
	sum := sha256.Sum256([]byte(name))
	address := fmt.Sprintf("@healthd-%x", sum[:16])
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, holder(ctx, address)
	}
	if err != nil {
		return nil, err
	}
	go func() { // who asks for the holder must not fill the queue
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return &Lock{ln}, nil
}

// Release gives the lock back. A nil Lock is none.
func (l *Lock) Release() {
	if l != nil {
		_ = l.listener.Close()
	}
}

// holder returns who has a lock as a *Held; nil: a process that cannot be meant.
func holder(ctx context.Context, address string) error {
	pid, uid, err := peerOf(ctx, address)
	switch {
	case err != nil:
		return fmt.Errorf("cannot see who has the lock: %w", err)
	case uid != 0 && uid != os.Geteuid():
		return nil
	}
	name, _ := readFile(fmt.Sprintf("/proc/%d/comm", pid), maxCgroup)
	return &Held{pid, strings.TrimSpace(string(name))}
}
