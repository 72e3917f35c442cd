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
	dial    dialer      // where package net connects
	tls     *tls.Config // nil: without TLS
	request grpcRequest
	keep    *kept[*grpcLink] // nil: each call gets a new connection
}

func (p *Prober) grpcProbe(h *GRPC, t Target) (asker, error) {
	to, err := newEndpoint(h.Via, "", h.Port, t)
	if err != nil {
		return nil, err
	}
	g := &grpcProbe{prober: p, address: net.JoinHostPort(to.host, strconv.Itoa(h.Port)), to: to, dial: dialerOf(to)}
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
	if h.KeepAlive {
		g.keep = &kept[*grpcLink]{allowance: &p.allowance}
	}
	return g, nil
}

// close closes the connection that the probe keeps.
func (p *grpcProbe) close() {
	if p.keep != nil {
		p.keep.close()
	}
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
	l, answer := p.callKept(ctx, deadline)
	if answer.missed() {
		l, answer = p.callNew(ctx, deadline)
		if answer.unprocessed { // grpc-go asks once more, too
			l, answer = p.callNew(ctx, deadline)
		}
	}
	r, err := p.toResult(answer, timeout)
	return l.seen.conclude(r), err
}

// callKept makes a call on the connection that is kept. Without one that takes the call, the answer is missed.
func (p *grpcProbe) callKept(ctx context.Context, deadline time.Time) (*grpcLink, grpcAnswer) {
	if p.keep == nil {
		return nil, grpcAnswer{}
	}
	l := p.keep.take()
	switch {
	case l == nil:
		return nil, grpcAnswer{}
	case !l.takes(len(p.request.message)):
		_ = l.Close()
		return nil, grpcAnswer{}
	}
	return l, p.callOn(ctx, deadline, l)
}

// callNew makes a call on a new connection.
func (p *grpcProbe) callNew(ctx context.Context, deadline time.Time) (*grpcLink, grpcAnswer) {
	l, err := p.link(ctx, deadline)
	if err != nil {
		return l, grpcAnswer{err: connectError{err}}
	}
	return l, p.callOn(ctx, deadline, l)
}

// callOn makes a call on l, which it keeps or closes.
func (p *grpcProbe) callOn(ctx context.Context, deadline time.Time, l *grpcLink) grpcAnswer {
	x := p.prober.grpcExchanges.Get().(*grpcExchange)
	defer p.prober.grpcExchanges.Put(x)
	if err := l.conn.SetDeadline(deadline); err != nil {
		_ = l.Close()
		return grpcAnswer{err: err}
	}
	release := interruptOnDone(ctx, l.conn, x.interrupted)
	a := x.do(l, &p.request, deadline)
	release()
	// After a failure the next probe gets a new connection, in case it was due to this one.
	if p.keep == nil || !a.healthy() || l.draining {
		_ = l.Close()
		return a
	}
	l.seen.accepted()
	p.keep.put(l)
	return a
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
