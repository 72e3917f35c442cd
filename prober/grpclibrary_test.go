package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// libraryProbe asks with grpc-go's client, which shows how servers are to be understood, and what one
// call costs there.
type libraryProbe struct {
	prober  *Prober
	address string
	service string
	dial    dialer
	tls     *tls.Config // nil: without TLS
}

func newLibraryProbe(tb testing.TB, h *GRPC, t Target) Probe {
	tb.Helper()
	p := New(Config{UserAgent: "healthd/1.0"})
	to, err := newEndpoint(h.Via, "", h.Port, t)
	if err != nil {
		tb.Fatal(err)
	}
	l := libraryProbe{prober: p, address: net.JoinHostPort(to.host, strconv.Itoa(h.Port)), service: h.Service, dial: dialerOf(to)}
	if h.TLS != nil {
		if l.tls, err = p.credentials.config(h.TLS); err != nil {
			tb.Fatal(err)
		}
	}
	return probe{l}
}

func (p libraryProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	if p.tls == nil {
		return p.askWith(ctx, timeout, insecure.NewCredentials(), &libraryHandshakes{})
	}
	seen := &libraryHandshakes{}
	r, err := p.askWith(ctx, timeout, libraryTLS{credentials.NewTLS(seen.watch(p.tls)), seen}, seen)
	return seen.conclude(r), err
}

// askWith asks with creds, of which seen notes the handshakes.
func (p libraryProbe) askWith(ctx context.Context, timeout time.Duration, creds credentials.TransportCredentials, seen *libraryHandshakes) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := libraryDialer{connect: p.dial}
	conn, err := grpc.NewClient("passthrough:///"+p.address,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent(p.prober.userAgent),
		grpc.WithContextDialer(d.dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithWriteBufferSize(readBuffer),
		grpc.WithMaxHeaderListSize(grpcMaxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMaxReply)),
	)
	if err != nil {
		return Result{}, fmt.Errorf("cannot make a gRPC client: %w", err)
	}
	defer conn.Close()
	state := waitLibraryConnected(ctx, conn)
	if state != connectivity.Ready && state != connectivity.TransientFailure {
		return failureOrRetry(context.DeadlineExceeded, fmt.Sprintf(
			"timeout: failed to connect service %q within %v: %v", p.address, timeout, context.DeadlineExceeded))
	}
	// After a failed connection, this call fails at once with the reason.
	reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: p.service})
	if err != nil {
		connectErr := d.dialError()
		if connectErr == nil {
			connectErr = seen.handshakeError()
		}
		if connectErr != nil {
			return failureOrRetry(connectErr, fmt.Sprintf("error: failed to connect service at %q: %v", p.address, connectErr))
		}
		return libraryResult(err, state, conn.GetState(), timeout), nil
	}
	if s := reply.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
		return Result{
			Outcome: Failure,
			Cause:   Status,
			Output:  fmt.Sprintf("service unhealthy (responded with %q)", s),
		}, nil
	}
	return Result{Outcome: Success, Output: "service healthy"}, nil
}

// waitLibraryConnected waits until conn is connected or failed to connect, or ctx ended, and
// returns its state.
func waitLibraryConnected(ctx context.Context, conn *grpc.ClientConn) connectivity.State {
	conn.Connect()
	for {
		s := conn.GetState()
		if s == connectivity.Ready || s == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, s) {
			return s
		}
	}
}

// libraryResult returns the result for a failed call. before and after are the states of
// its connection.
func libraryResult(err error, before, after connectivity.State, timeout time.Duration) Result {
	r := Result{Outcome: Failure, Cause: Status}
	switch status.Code(err) {
	case codes.Unimplemented:
		r.Cause = Protocol
		r.Output = fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s",
			status.Convert(err).Message())
	case codes.DeadlineExceeded:
		r.Cause = Timeout
		r.Output = fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	default:
		r.Output = fmt.Sprintf("error: health rpc probe failed: %v", err)
		if before != connectivity.Ready {
			r.Cause = Protocol // connected, and then no HTTP/2
		} else if status.Code(err) == codes.Unavailable && after != connectivity.Ready {
			r.Cause = Reset
		}
	}
	r.Output = clean(r.Output)
	return r
}

// libraryDialer keeps the error of a failed connection: the status of a call has only its
// text.
type libraryDialer struct {
	connect dialer
	err     atomic.Pointer[error]
}

func (d *libraryDialer) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := d.connect(ctx, address)
	if err != nil && !errors.Is(err, context.Canceled) {
		d.err.Store(&err)
	}
	return c, err
}

func (d *libraryDialer) dialError() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// libraryHandshakes keeps the error of the last handshake, of which a call has only the text.
type libraryHandshakes struct {
	handshakes
	err atomic.Pointer[error]
}

func (h *libraryHandshakes) handshakeError() error {
	if err := h.err.Load(); err != nil {
		return *err
	}
	return nil
}

type libraryTLS struct {
	credentials.TransportCredentials
	seen *libraryHandshakes
}

func (l libraryTLS) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := l.TransportCredentials.ClientHandshake(ctx, authority, c)
	if err != nil && ctx.Err() == nil {
		l.seen.noteError(err)
		l.seen.err.Store(&err)
	}
	return secured, info, err
}

func (l libraryTLS) Clone() credentials.TransportCredentials {
	return libraryTLS{l.TransportCredentials.Clone(), l.seen}
}
