package prober

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// checkFunc is a health service.
type checkFunc func(ctx context.Context, service string) (*healthpb.HealthCheckResponse, error)

type healthService struct {
	healthpb.UnimplementedHealthServer
	check checkFunc
}

func (s healthService) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return s.check(ctx, r.GetService())
}

// grpcServer serves s; without one no service at all.
func grpcServer(t *testing.T, s healthpb.HealthServer) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	if s != nil {
		healthpb.RegisterHealthServer(server, s)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return portOf(t, l.Addr().String())
}

func TestGRPC(t *testing.T) {
	known := health.NewServer()
	known.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	known.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	known.SetServingStatus("unknown", healthpb.HealthCheckResponse_UNKNOWN)
	for _, tt := range []struct {
		name, service string
		server        healthpb.HealthServer
		outcome       Outcome
		cause         Cause
		output        string
		kubelet       string
	}{
		{"service that is up", "up", known, Success, "", "service healthy", "85 86"},
		{"server as a whole", "", known, Success, "", "service healthy", ""},
		{"service that is down", "down", known, Failure, Status, `service unhealthy (responded with "NOT_SERVING")`, "83"},
		{"UNKNOWN", "unknown", known, Failure, Status, `service unhealthy (responded with "UNKNOWN")`, ""},
		{"NotFound", "other", known, Failure, Status, "error: health rpc probe failed: rpc error: code = NotFound", ""},
		{"Unimplemented", "", nil, Failure, Protocol, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ", ""},
		{"Unavailable", "", healthService{check: func(context.Context, string) (*healthpb.HealthCheckResponse, error) {
			return nil, status.Error(codes.Unavailable, "later")
		}}, Failure, Status, "later", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			r := ask(t, Handler{GRPC: &GRPC{Port: grpcServer(t, tt.server), Service: tt.service}})
			wantResult(t, r, tt.outcome, tt.cause)
			wantOutput(t, r, tt.output)
		})
	}
	waitForNoGoroutine(t, "google.golang.org/grpc")
}

func TestGRPCUserAgent(t *testing.T) {
	agents := make(chan []string, 1)
	port := grpcServer(t, healthService{check: func(ctx context.Context, _ string) (*healthpb.HealthCheckResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		agents <- md.Get("user-agent")
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}})
	wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: port}}), Success, "")
	if got, want := (<-agents)[0], "healthd/1.0 grpc-go/"+grpc.Version; got != want {
		t.Errorf("got user agent %q, want %q", got, want)
	}
}

func TestGRPCErrors(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		covers(t, "81") // known at once, not at the end of the timeout
		port := closedPort(t)
		r := ask(t, Handler{GRPC: &GRPC{Port: port}})
		wantResult(t, r, Failure, Refused)
		wantOutput(t, r, fmt.Sprintf(`error: failed to connect service at "127.0.0.1:%d": `, port))
		if r.Latency >= longTimeout {
			t.Errorf("a refusal took %v", r.Latency)
		}
	})
	t.Run("nobody answers", func(t *testing.T) {
		covers(t, "81")
		port := fullBacklogPort(t)
		wantBriefly(t, Handler{GRPC: &GRPC{Port: port}}, Failure, Timeout,
			fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 150ms: context deadline exceeded`, port))
	})
	t.Run("server of HTTP/1", func(t *testing.T) {
		covers(t, "82")
		port := webServer(t, func(http.ResponseWriter, *http.Request) {})
		wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: port}}), Failure, Protocol)
	})
	t.Run("garbage", func(t *testing.T) {
		port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { _, _ = c.Write(make([]byte, 100)) })
		wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: port}}), Failure, Protocol)
	})
	t.Run("server that says nothing", func(t *testing.T) {
		wantBriefly(t, Handler{GRPC: &GRPC{Port: rawServer(t, false, hang)}}, Failure, Timeout, "timeout: failed to connect service")
	})
	t.Run("check that does not end", func(t *testing.T) {
		covers(t, "84")
		port := grpcServer(t, healthService{check: func(ctx context.Context, _ string) (*healthpb.HealthCheckResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		wantBriefly(t, Handler{GRPC: &GRPC{Port: port}}, Failure, Timeout, "timeout: health rpc did not complete within 150ms")
	})
	waitForNoGoroutine(t, "google.golang.org/grpc/internal/transport")
}
