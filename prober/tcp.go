package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tcpProbe is the asker that opens a connection.
type tcpProbe struct {
	address string
	to      endpoint
}

func newTCPProbe(h *TCPSocket, t Target) (*tcpProbe, error) {
	to, err := newEndpoint(h.Via, h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	return &tcpProbe{address: net.JoinHostPort(to.host, strconv.Itoa(h.Port)), to: to}, nil
}

func (p *tcpProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	err := p.connect(ctx, time.Now().Add(timeout))
	if err == nil {
		return Result{Outcome: Success}, nil
	}
	if p.to.sa != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return failureOrRetry(err, fmt.Sprintf("dial tcp %s: no connection within %v", p.address, timeout))
	}
	return failureOrRetry(err, p.dialError(err))
}

// dialError returns the text for a connection that failed.
func (p *tcpProbe) dialError(err error) string {
	if p.to.sa == nil {
		return err.Error() // *net.OpError has the address in it
	}
	return fmt.Sprintf("dial tcp %s: %s", p.address, plainError(err))
}

func (p *tcpProbe) connect(ctx context.Context, deadline time.Time) error {
	if p.to.sa == nil {
		return p.dialName(ctx, deadline)
	}
	fd, err := startConnect(p.to)
	if err != nil {
		return err
	}
	// To a container on this host the handshake is over before connect returns,
	// and the poller is not needed.
	ok, err := connected(fd, p.to.sa)
	if !ok && err == nil {
		return waitConnected(ctx, fd, p.to.sa, deadline)
	}
	if err == nil {
		err = selfConnectError(fd, p.to.sa)
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
	return awaitConnect(ctx, f, sa, deadline)
}

func (p *tcpProbe) dialName(ctx context.Context, deadline time.Time) error {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	c, err := dialerOf(p.to)(ctx, p.address)
	if err != nil {
		return err
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
	return nil
}
