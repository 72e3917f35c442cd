package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// grpcProbe is the asker for grpc.health.v1.Health/Check. grpc-go's client is made for channels that last:
// with its goroutines and 660 allocations it takes four times the CPU time that one call needs.
type grpcProbe struct {
	prober  *Prober
	address string
	to      endpoint
	tls     *tls.Config // nil: without TLS
	request grpcRequest
}

func (p *Prober) grpcProbe(h *GRPC, t Target) (asker, error) {
	to, err := newEndpoint(h.Via, "", h.Port, t)
	if err != nil {
		return nil, err
	}
	g := &grpcProbe{prober: p, address: net.JoinHostPort(to.host, strconv.Itoa(h.Port)), to: to}
	if h.TLS != nil {
		if g.tls, err = p.credentials.config(h.TLS); err != nil {
			return nil, err
		}
	}
	scheme := "http"
	if h.TLS != nil {
		scheme = "https"
	}
	if g.request, err = newGRPCRequest(scheme, g.authority(), p.userAgent, h.Service); err != nil {
		return nil, err
	}
	return g, nil
}

// authority is the name that the server is asked for.
func (p *grpcProbe) authority() string {
	if p.tls != nil && p.tls.ServerName != "" {
		return p.tls.ServerName
	}
	return p.address
}

func (p *grpcProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	deadline := time.Now().Add(timeout)
	var seen handshakes
	answer := p.call(ctx, deadline, &seen)
	if answer.unprocessed { // grpc-go asks once more, too
		answer = p.call(ctx, deadline, &seen)
	}
	r, err := p.toResult(answer, timeout)
	return seen.conclude(r), err
}

// call makes one call on a new connection.
func (p *grpcProbe) call(ctx context.Context, deadline time.Time, seen *handshakes) grpcAnswer {
	conn, err := p.connect(ctx, deadline, seen)
	if err != nil {
		return grpcAnswer{err: connectError{err}}
	}
	defer conn.Close()
	x := p.prober.grpcExchanges.Get().(*grpcExchange)
	defer p.prober.grpcExchanges.Put(x)
	if err := conn.SetDeadline(deadline); err != nil {
		return grpcAnswer{err: err}
	}
	release := interruptOnDone(ctx, conn, x.interrupted)
	defer release()
	return x.do(conn, &p.request, deadline)
}

// connectError is why there is no connection.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

func (p *grpcProbe) toResult(a grpcAnswer, timeout time.Duration) (Result, error) {
	connectErr, notConnected := errors.AsType[connectError](a.err)
	switch {
	case a.err == nil && a.end.Code() != codes.OK:
		return statusResult(a.end, timeout), nil
	case a.err == nil && a.serving != healthpb.HealthCheckResponse_SERVING:
		return Result{Outcome: Failure, Cause: Status, Output: fmt.Sprintf("service unhealthy (responded with %q)", a.serving)}, nil
	case a.err == nil:
		return Result{Outcome: Success, Output: "service healthy"}, nil
	case isTimeout(a.err) && a.ready:
		return statusResult(status.New(codes.DeadlineExceeded, ""), timeout), nil
	case isTimeout(a.err):
		return failureOrRetry(context.DeadlineExceeded, fmt.Sprintf(
			"timeout: failed to connect service %q within %v: %v", p.address, timeout, context.DeadlineExceeded))
	case notConnected:
		return failureOrRetry(connectErr, fmt.Sprintf("error: failed to connect service at %q: %v", p.address, connectErr))
	}
	return brokenResult(a), nil
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// statusResult returns the result for a call that ended with a status other than OK.
func statusResult(s *status.Status, timeout time.Duration) Result {
	r := Result{Outcome: Failure, Cause: Status}
	switch s.Code() {
	case codes.Unimplemented:
		r.Cause = Protocol
		r.Output = clean("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + s.Message())
	case codes.DeadlineExceeded:
		r.Cause = Timeout
		r.Output = fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	default:
		r.Output = clean(fmt.Sprintf("error: health rpc probe failed: %v", s.Err()))
	}
	return r
}

// brokenResult returns the result for a connection that ended before the call did.
func brokenResult(a grpcAnswer) Result {
	why := a.err.Error()
	if !a.ready { // connected, and then no HTTP/2
		why = fmt.Sprintf("connection error: desc = %q", why)
	}
	r := statusResult(status.New(codes.Unavailable, why), 0)
	r.Cause = Reset
	if !a.ready {
		r.Cause = Protocol
	}
	return r
}
