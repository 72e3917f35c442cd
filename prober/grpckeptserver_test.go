package prober

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"healthd/e2e/ports"
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

// The server ends each connection after a while, amid calls and between them. A new connection lives as long as a call.
func TestGRPCKeptMaxConnectionAge(t *testing.T) {
	const age, grace, takes, calls = 10 * time.Second, 2 * time.Second, 5 * time.Second, 100
	synctest.Test(t, func(t *testing.T) {
		memory := bufconn.Listen(1 << 16)
		l := &countedListener{Listener: memory}
		server := grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age, MaxConnectionAgeGrace: grace}))
		var ended atomic.Int32 // calls whose connection ended before the answer
		healthpb.RegisterHealthServer(server, healthService{check: func(ctx context.Context, _ string) (*healthpb.HealthCheckResponse, error) {
			time.Sleep(takes)
			if ctx.Err() != nil {
				ended.Add(1)
			}
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
		}})
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		p := mustProbe(t, Config{}, Handler{GRPC: &GRPC{Port: 1, KeepAlive: true}}, loopback)
		g := p.(probe).asker.(*grpcProbe)
		g.to.sa, g.dial = nil, func(ctx context.Context, _ string) (net.Conn, error) { return memory.DialContext(ctx) }
		for i := range calls {
			wantSuccess(t, p)
			time.Sleep(time.Duration(1+i%40) * grace / 10)
		}
		p.Close()
		server.Stop()
		serving.Wait()
		if n := int(l.conns.Load()); n < 10 || n > calls || ended.Load() == 0 {
			t.Errorf("%d connections for %d calls, and %d calls whose connection ended", n, calls, ended.Load())
		}
	})
}

// A server that is replaced gets away from a kept connection, and no probe fails.
func TestGRPCKeptGracefulStop(t *testing.T) {
	address := ports.Address(t)
	old, l := startLibrary(t, address, health.NewServer())
	p := keptCalls(t, GRPC{Port: portOf(t, address)})
	wantSuccess(t, p)
	_ = l.Close()
	_, next := startLibrary(t, address, health.NewServer())
	var stopping sync.WaitGroup
	stopping.Go(old.GracefulStop)
	for next.conns.Load() == 0 && !t.Failed() {
		wantSuccess(t, p)
	}
	stopping.Wait()
	wantSuccess(t, p)
	if n := next.conns.Load(); n != 1 {
		t.Errorf("%d connections to the next server, want 1", n)
	}
}
