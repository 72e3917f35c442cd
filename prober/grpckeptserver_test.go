package prober

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// countedListener counts what it accepts.
type countedListener struct {
	net.Listener
	conns atomic.Int32
}

// Accept implements net.Listener.
func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.conns.Add(1)
	}
	return c, err
}

// startLibrary starts grpc-go's server at an address, which stops when the test ends.
func startLibrary(t *testing.T, address string, s healthpb.HealthServer, options ...grpc.ServerOption) (*grpc.Server, *countedListener) {
	t.Helper()
	plain, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l := &countedListener{Listener: plain}
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return server, l
}

// A kept connection tells the same as grpc-go's client does, which makes a new one here.
func TestGRPCKeptLikeLibrary(t *testing.T) {
	var asked atomic.Int32
	states := []func() (*healthpb.HealthCheckResponse, error){
		func() (*healthpb.HealthCheckResponse, error) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
		},
		func() (*healthpb.HealthCheckResponse, error) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
		},
		func() (*healthpb.HealthCheckResponse, error) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
		},
		func() (*healthpb.HealthCheckResponse, error) {
			return nil, status.Error(codes.NotFound, "unknown service")
		},
		func() (*healthpb.HealthCheckResponse, error) { return nil, status.Error(codes.Unavailable, "later") },
	}
	port := grpcServer(t, healthService{check: func(context.Context, string) (*healthpb.HealthCheckResponse, error) {
		return states[int(asked.Add(1)-1)/2%len(states)]() // each twice: for both clients
	}})
	ours, theirs := keptCalls(t, GRPC{Port: port}), newLibraryProbe(t, &GRPC{Port: port}, loopback)
	for range 4 * len(states) {
		got, want := ours.Ask(t.Context(), longTimeout), theirs.Ask(t.Context(), longTimeout)
		if got.Outcome != want.Outcome || got.Cause != want.Cause || got.Output != want.Output {
			t.Errorf("got %v %s %q\nwant %v %s %q, as grpc-go", got.Outcome, got.Cause, got.Output, want.Outcome, want.Cause, want.Output)
		}
	}
}

// A server that forbids pings sees none.
func TestGRPCKeptSendsNoPings(t *testing.T) {
	_, l := startLibrary(t, "127.0.0.1:0", health.NewServer(), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Hour}))
	p := keptCalls(t, GRPC{Port: portOf(t, l.Addr().String())})
	for range 300 {
		wantSuccess(t, p)
	}
	if n := l.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// The server ends each connection after a while, amid calls and between them.
func TestGRPCKeptMaxConnectionAge(t *testing.T) {
	_, l := startLibrary(t, "127.0.0.1:0", health.NewServer(), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 5 * time.Millisecond, MaxConnectionAgeGrace: time.Millisecond,
	}))
	p := keptCalls(t, GRPC{Port: portOf(t, l.Addr().String())})
	deadline := time.Now().Add(longTimeout)
	for l.conns.Load() < 20 {
		if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success || time.Now().After(deadline) {
			t.Fatalf("on connection %d: %+v", l.conns.Load(), r)
		}
	}
}

// A server that is replaced gets away from a kept connection, and no probe fails.
func TestGRPCKeptGracefulStop(t *testing.T) {
	old, l := startLibrary(t, "127.0.0.1:0", health.NewServer())
	address := l.Addr().String()
	p := keptCalls(t, GRPC{Port: portOf(t, address)})
	wantSuccess(t, p)
	_ = l.Close()
	_, next := startLibrary(t, address, health.NewServer())
	var stopping sync.WaitGroup
	stopping.Go(old.GracefulStop)
	deadline := time.Now().Add(longTimeout)
	for next.conns.Load() == 0 {
		if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success || time.Now().After(deadline) {
			t.Fatalf("%+v", r)
		}
	}
	stopping.Wait()
	wantSuccess(t, p)
	if n := next.conns.Load(); n != 1 {
		t.Errorf("%d connections to the next server, want 1", n)
	}
}
