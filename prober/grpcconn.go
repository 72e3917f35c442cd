package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// grpcConn is a connection that is perhaps still being made. Close resets it: a server waits for the next
// call and does not close first, and the side that does keeps the connection in TIME_WAIT.
type grpcConn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// link makes a connection. With an error it has what the handshake showed.
func (p *grpcProbe) link(ctx context.Context, deadline time.Time) (*grpcLink, error) {
	l := newGRPCLink()
	var err error
	l.conn, err = p.connect(ctx, deadline, &l.seen)
	return l, err
}

// connect connects. seen notes the handshake.
func (p *grpcProbe) connect(ctx context.Context, deadline time.Time, seen *handshakes) (grpcConn, error) {
	if p.tls == nil && p.to.sa != nil {
		fd, err := startConnect(p.to)
		if err != nil {
			return nil, dialError(p.address, err)
		}
		// A server may wait for a small frame, such as an acknowledgement, that follows another one.
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		return plainConn{os.NewFile(uintptr(fd), ""), fd, p}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := p.dial(ctx, p.address)
	if err != nil {
		return nil, err
	}
	if p.tls == nil {
		return netConn{raw, raw}, nil
	}
	conn, _, err := credentials.NewTLS(seen.watch(p.tls)).ClientHandshake(ctx, p.authority(), raw)
	if err != nil {
		seen.noteError(err)
		return nil, seen.hungUp(err)
	}
	return netConn{conn, raw}, nil
}

func dialError(address string, err error) error { return fmt.Errorf("dial tcp %s: %w", address, err) }

// netConn is a grpcConn by package net.
type netConn struct {
	net.Conn
	raw net.Conn // below Conn
}

func (c netConn) Close() error {
	if t, ok := c.raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	return c.raw.Close() // that of TLS may wait
}

// plainConn is a grpcConn by the Go runtime's poller alone.
type plainConn struct {
	*os.File
	fd    int
	probe *grpcProbe
}

// Write has the error where the way to be connected ends: there is no need to wait twice.
func (c plainConn) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok || errno == syscall.EPIPE || errno == syscall.ECONNRESET {
		return n, err
	}
	err = os.NewSyscallError("connect", errno)
	if c.probe.to.confined {
		err = blameOwn(err)
	}
	return n, connectError{dialError(c.probe.address, err)}
}

func (c plainConn) Close() error {
	resetOnClose(c.fd)
	return c.File.Close()
}
