package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// grpcBuffer suits one message of a few bytes; the default is 32 KiB each way.
	grpcBuffer = 4 << 10
	// grpcMaxReply bounds the reply, which should have three bytes, and grpcMaxHeaders its headers.
	grpcMaxReply   = 10 << 10
	grpcMaxHeaders = 64 << 10
)

// grpcProbe is the asker for grpc.health.v1.Health/Check.
type grpcProbe struct {
	address   string
	service   string
	userAgent string
	dial      dialer
	tls       *tls.Config // nil: without TLS
}

func (p *Prober) grpcProbe(h *GRPC, t Target) (asker, error) {
	to, err := newEndpoint(h.Via, "", h.Port, t)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if h.TLS != nil {
		if secure, err = p.credentials.config(h.TLS); err != nil {
			return nil, err
		}
	}
	return &grpcProbe{
		address:   net.JoinHostPort(to.host, strconv.Itoa(h.Port)),
		service:   h.Service,
		userAgent: p.userAgent,
		dial:      dialerOf(to),
		tls:       secure,
	}, nil
}

func (p *grpcProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	if p.tls == nil {
		return p.askWith(ctx, timeout, insecure.NewCredentials(), &handshakes{})
	}
	seen := &handshakes{}
	r, err := p.askWith(ctx, timeout, newGRPCTLS(p.tls, seen), seen)
	return seen.conclude(r), err
}

// askWith asks with creds, of which seen notes the handshakes.
func (p *grpcProbe) askWith(ctx context.Context, timeout time.Duration, creds credentials.TransportCredentials, seen *handshakes) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := grpcDialer{connect: p.dial}
	conn, err := grpc.NewClient("passthrough:///"+p.address,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent(p.userAgent),
		grpc.WithContextDialer(d.dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithReadBufferSize(grpcBuffer),
		grpc.WithWriteBufferSize(grpcBuffer),
		grpc.WithMaxHeaderListSize(grpcMaxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMaxReply)),
	)
	if err != nil {
		return Result{}, fmt.Errorf("cannot make a gRPC client: %w", err)
	}
	defer conn.Close()
	state := waitConnectResult(ctx, conn)
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
		return statusResult(err, state, conn.GetState(), timeout), nil
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

// waitConnectResult waits until conn is connected or failed to connect, or ctx ended, and
// returns its state.
func waitConnectResult(ctx context.Context, conn *grpc.ClientConn) connectivity.State {
	conn.Connect()
	for {
		s := conn.GetState()
		if s == connectivity.Ready || s == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, s) {
			return s
		}
	}
}

// statusResult returns the result for a failed call. before and after are the states of
// its connection.
func statusResult(err error, before, after connectivity.State, timeout time.Duration) Result {
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

// grpcDialer keeps the error of a failed connection: the status of a call has only its
// text.
type grpcDialer struct {
	connect dialer
	err     atomic.Pointer[error]
}

func (d *grpcDialer) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := d.connect(ctx, address)
	if err != nil && !errors.Is(err, context.Canceled) {
		d.err.Store(&err)
	}
	return c, err
}

func (d *grpcDialer) dialError() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}
