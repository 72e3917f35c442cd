package prober

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// net.Dialer with a context costs 25 allocations and a goroutine for each connection.
// The functions here do what a probe needs with non-blocking sockets and the Go
// runtime's poller.

func sockaddr(ap netip.AddrPort) syscall.Sockaddr {
	if ap.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	return &syscall.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

// startConnect returns a non-blocking socket that is connected or connecting.
func startConnect(to endpoint) (fd int, err error) {
	family := syscall.AF_INET6
	if _, ok := to.sa.(*syscall.SockaddrInet4); ok {
		family = syscall.AF_INET
	}
	if to.inside != nil {
		fd, err = to.inside.socket(family)
	} else {
		fd, err = socket(family)
	}
	if err != nil {
		return -1, err
	}
	if _, err := connected(fd, to.sa); err != nil {
		_ = syscall.Close(fd)
		if to.confined {
			err = blameOwn(err)
		}
		return -1, err
	}
	return fd, nil
}

// noRoute is why healthd's own container, which may lose a network at any moment, does not even try to
// connect. It says nothing about the one that it would ask.
type noRoute struct{ error }

func (e noRoute) Error() string {
	return e.error.Error() + ": healthd's own container has no network that leads there"
}

// blameOwn returns err as a noRoute if it is one.
func blameOwn(err error) error {
	if errors.Is(err, syscall.ENETUNREACH) {
		return noRoute{err}
	}
	return err
}

func socket(family int) (int, error) {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// connected starts to connect fd, and, called again, says whether it is connected.
func connected(fd int, sa syscall.Sockaddr) (bool, error) {
	switch err := syscall.Connect(fd, sa); err {
	case nil, syscall.EISCONN:
		return true, nil
	case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
		return false, nil
	default:
		return false, os.NewSyscallError("connect", err)
	}
}

// selfConnectError returns an error if fd is connected to itself. When no process listens
// on a port of this host, the kernel may choose that port as the local one, and the
// connection succeeds.
func selfConnectError(fd int, sa syscall.Sockaddr) error {
	own, err := syscall.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch own := own.(type) {
	case *syscall.SockaddrInet4:
		if to, ok := sa.(*syscall.SockaddrInet4); ok && own.Port == to.Port && own.Addr == to.Addr {
			return syscall.ECONNREFUSED
		}
	case *syscall.SockaddrInet6:
		if to, ok := sa.(*syscall.SockaddrInet6); ok && own.Port == to.Port && own.Addr == to.Addr {
			return syscall.ECONNREFUSED
		}
	}
	return nil
}

// awaitConnect waits until f is connected.
func awaitConnect(ctx context.Context, f *os.File, sa syscall.Sockaddr, deadline time.Time) error {
	if err := f.SetDeadline(deadline); err != nil {
		return err
	}
	release := interruptOnDone(ctx, f, make(chan struct{}, 1))
	defer release()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		ok, err := connected(int(fd), sa)
		if ok {
			err = selfConnectError(int(fd), sa)
		}
		failure = err
		return ok || err != nil
	})
	if err != nil {
		return err
	}
	return failure
}

// resetOnClose makes close send a RST, so that no TIME_WAIT remains. It cannot fail on a
// socket.
func resetOnClose(fd int) {
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}

// interruptOnDone ends reads and writes of f when ctx ends. The caller calls release
// before it closes f: after that f is not touched any more. done needs a capacity of 1.
func interruptOnDone(ctx context.Context, f interface{ SetDeadline(time.Time) error }, done chan struct{}) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	stop := context.AfterFunc(ctx, func() {
		_ = f.SetDeadline(time.Unix(1, 0))
		done <- struct{}{}
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}
