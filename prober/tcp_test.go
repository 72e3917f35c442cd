package prober

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// closedPort returns a port on which nobody listens. It is bound, so that no other process
// gets it.
func closedPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return boundPort(t, fd)
}

func boundPort(t *testing.T, fd int) int {
	t.Helper()
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return sa.(*syscall.SockaddrInet4).Port
}

// fullBacklogPort returns a port whose listen backlog is full: connections neither succeed nor fail.
func fullBacklogPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	port := boundPort(t, fd)
	for range 4 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), shortTimeout)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener does not get full")
	return 0
}

func TestTCP(t *testing.T) {
	open := rawServer(t, false, func(net.Conn, <-chan struct{}) {}) // closes at once: healthy all the same
	left := countTimeWaits(t, open)
	for _, host := range []string{"", "127.0.0.1", "::ffff:127.0.0.1", "localhost"} {
		t.Run("host "+host, func(t *testing.T) {
			covers(t, "78")
			r := ask(t, Handler{TCPSocket: &TCPSocket{Host: host, Port: open}})
			wantResult(t, r, Success, "")
			if r.Output != "" {
				t.Errorf("output is %q", r.Output)
			}
			r = ask(t, Handler{TCPSocket: &TCPSocket{Host: host, Port: closedPort(t)}})
			wantResult(t, r, Failure, Refused)
			wantOutput(t, r, "connection refused")
		})
	}
	if n := left(); n != 0 {
		t.Errorf("%d connections are in TIME_WAIT", n)
	}
}

func TestTCPAddress(t *testing.T) {
	for _, tt := range []struct {
		name    string
		h       TCPSocket
		want    string
		kubelet string
	}{
		{"no host", TCPSocket{Port: 93}, "1.2.3.4:93", "77"},
		{"no host, another port", TCPSocket{Port: 76}, "1.2.3.4:76", "77"},
		{"no host, a third port", TCPSocket{Port: 118}, "1.2.3.4:118", "77"},
		{"host", TCPSocket{Host: "example.com", Port: 76}, "example.com:76", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			p, err := newTCPProbe(&tt.h, Target{Address: "1.2.3.4"})
			if err != nil || p.address != tt.want || (p.to.sa == nil) != (tt.h.Host != "") {
				t.Fatalf("got %+v, %v, want %s", p, err, tt.want)
			}
			if sa, ok := p.to.sa.(*syscall.SockaddrInet4); ok && (sa.Port != tt.h.Port || sa.Addr != [4]byte{1, 2, 3, 4}) {
				t.Errorf("connects to %+v", sa)
			}
		})
	}
}

func TestTCPTimeout(t *testing.T) {
	deaf := fullBacklogPort(t)
	wantBriefly(t, Handler{TCPSocket: &TCPSocket{Port: deaf}}, Failure, Timeout,
		fmt.Sprintf("dial tcp 127.0.0.1:%d: no connection within 150ms", deaf))
	wantBriefly(t, Handler{TCPSocket: &TCPSocket{Port: deaf, Host: "localhost"}}, Failure, Timeout, "")
	wantBriefly(t, Handler{HTTPGet: &HTTPGet{Port: deaf}}, Failure, Timeout, "")
}

func TestTCPConnectsAfterAWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sa := &syscall.SockaddrInet4{Port: portOf(t, l.Addr().String()), Addr: [4]byte{127, 0, 0, 1}}
	fd, err := startConnect(endpoint{sa: sa})
	if err != nil {
		t.Fatal(err)
	}
	if err := waitConnected(t.Context(), fd, sa, time.Now().Add(longTimeout)); err != nil {
		t.Error(err)
	}
}

func TestTCPSelfConnect(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	sa := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, sa); err != nil {
		t.Fatal(err)
	}
	sa.Port = boundPort(t, fd)
	if err := selfConnectError(fd, &syscall.SockaddrInet4{Addr: sa.Addr, Port: sa.Port ^ 1}); err != nil {
		t.Errorf("on the way to another port: %v", err)
	}
	if ok, err := connected(fd, sa); !ok || err != nil {
		t.Fatalf("cannot connect to itself: %v, %v", ok, err)
	}
	if err := selfConnectError(fd, sa); err != syscall.ECONNREFUSED {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestTCPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this host has no IPv6 loopback")
	}
	port := portOf(t, l.Addr().String())
	h := Handler{TCPSocket: &TCPSocket{Host: "::1", Port: port}}
	wantResult(t, ask(t, h), Success, "")
	_ = l.Close()
	wantResult(t, ask(t, h), Failure, Refused)
}

func TestTCPCancel(t *testing.T) {
	p := mustProbe(t, Config{}, Handler{TCPSocket: &TCPSocket{Port: fullBacklogPort(t)}}, loopback)
	ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
	defer cancel()
	wantResult(t, p.Ask(ctx, time.Hour), Unknown, NotAsked)
	waitForNoGoroutine(t, "prober.cutOff")
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Cause
	}{
		{syscall.ECONNREFUSED, Refused},
		{syscall.ECONNRESET, Reset},
		{syscall.EPIPE, Reset},
		{syscall.ETIMEDOUT, Timeout},
		{syscall.EHOSTUNREACH, Unreachable},
		{syscall.ENETUNREACH, Unreachable},
		{syscall.EMFILE, NotAsked},
		{syscall.ENFILE, NotAsked},
		{syscall.EADDRNOTAVAIL, NotAsked},
		{syscall.ENOBUFS, NotAsked},
		{syscall.ENOMEM, NotAsked},
		{syscall.EPERM, NotAsked},
		{syscall.EACCES, NotAsked},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, NotAsked},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, Unreachable},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, NotAsked},
		{os.ErrDeadlineExceeded, Timeout},
		{context.DeadlineExceeded, Timeout},
		{errLongHead, Protocol},
	} {
		if got := classify(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}
