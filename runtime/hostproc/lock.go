package hostproc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is a lock that one process of a network namespace holds at a time. It ends with the process.
type Lock struct{ listener net.Listener }

// Held says which process has a Lock that another one wants.
type Held struct {
	PID     int    // 0: this process does not see it
	Program string // as it calls itself; perhaps empty
	// Stranger: it is neither root's nor of the same user. Any process can take the name: the lock does not bind.
	Stranger bool
}

func (h *Held) Error() string {
	if h.PID == 0 {
		return "a process that is not to be seen from here has it"
	}
	return fmt.Sprintf("process %d (%s) has it", h.PID, h.Program)
}

// A process that has a lock listens a moment after it has the name, and takes every connection.
const (
	holderTries = 3
	holderPause = 100 * time.Millisecond
)

// TakeLock takes the lock for what has that name. The error is a *Held if another process has it.
func TakeLock(ctx context.Context, name string) (*Lock, error) {
	sum := sha256.Sum256([]byte(name))
	address := fmt.Sprintf("@healthd-%x", sum[:16])
	for try := 1; ; try++ {
		ln, err := new(net.ListenConfig).Listen(ctx, "unix", address)
		if err == nil {
			return hold(ln), nil
		}
		if errors.Is(err, unix.EADDRINUSE) {
			err = holder(ctx, address)
		}
		if deaf := errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EAGAIN); !deaf {
			return nil, err
		}
		if try == holderTries {
			return nil, &Held{Stranger: true}
		}
		time.Sleep(holderPause)
	}
}

func hold(ln net.Listener) *Lock {
	go func() { // who asks for the holder must not fill the queue
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return &Lock{ln}
}

// Release gives the lock back.
func (l *Lock) Release() { _ = l.listener.Close() }

// holder returns who has a lock as a *Held.
func holder(ctx context.Context, address string) error {
	pid, uid, err := peerOf(ctx, address)
	if err != nil {
		return fmt.Errorf("cannot see who has the lock: %w", err)
	}
	name, _ := readFile(fmt.Sprintf("/proc/%d/comm", pid), maxCgroup)
	return &Held{pid, strings.TrimSpace(string(name)), uid != 0 && uid != os.Geteuid()}
}
