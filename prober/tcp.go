package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tcpProbe is the asker that opens a connection.
type tcpProbe struct {
	address string
	sa      syscall.Sockaddr // nil: the host is a name
}

func newTCPProbe(h *TCPSocket, t Target) (*tcpProbe, error) {
	host, ap, err := endpoint(h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	p := &tcpProbe{address: net.JoinHostPort(host, strconv.Itoa(h.Port))}
	if ap != (netip.AddrPort{}) {
		p.sa = sockaddr(ap)
	}
	return p, nil
}

func (p *tcpProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	err := p.connect(ctx, time.Now().Add(timeout))
	if err == nil {
		return Result{Outcome: Success}, nil
	}
	if p.sa != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return failureOrRetry(err, fmt.Sprintf("dial tcp %s: no connection within %v", p.address, timeout))
	}
	return failureOrRetry(err, p.dialError(err))
}

// dialError returns the text for a connection that failed.
func (p *tcpProbe) dialError(err error) string {
	if p.sa == nil {
		return err.Error() // *net.OpError has the address in it
	}
	return fmt.Sprintf("dial tcp %s: %s", p.address, plainError(err))
}

func (p *tcpProbe) connect(ctx context.Context, deadline time.Time) error {
	if p.sa == nil {
		return dialName(ctx, p.address, deadline)
	}
	fd, err := startConnect(p.sa)
	if err != nil {
		return err
	}
	// To a container on this host the handshake is over before connect returns,
	// and the poller is not needed.
	ok, err := connected(fd, p.sa)
	if !ok && err == nil {
		return waitConnected(ctx, fd, p.sa, deadline)
	}
	if err == nil {
		err = selfConnectError(fd, p.sa)
	}
	resetOnClose(fd)
	_ = syscall.Close(fd)
	return err
}

// waitConnected waits until fd is connected, and closes it.
func waitConnected(ctx context.Context, fd int, sa syscall.Sockaddr, deadline time.Time) error {
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	resetOnClose(fd)
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
		failure = err
		return ok || err != nil
	})
	if err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	return selfConnectError(fd, sa)
}

func dialName(ctx context.Context, address string, deadline time.Time) error {
	d := net.Dialer{Deadline: deadline, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
	return nil
}
