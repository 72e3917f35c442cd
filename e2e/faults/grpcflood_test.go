package faults

import (
	"healthd/e2e/patience"

	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// gate keeps probes until it is opened, and tells when so many are there.
type gate struct {
	mu      sync.Mutex
	missing int
	full    chan struct{}
	open    chan struct{}
}

func newGate(probes int) *gate {
	return &gate{missing: probes, full: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	if g.missing--; g.missing == 0 {
		close(g.full)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// serveConns has serve talk to each client of a port until the test ends.
func serveConns(t *testing.T, serve func(context.Context, net.Conn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer context.AfterFunc(ctx, func() { c.Close() })()
				defer c.Close()
				serve(ctx, c)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// floodHeaders answers each call with size bytes of headers.
func floodHeaders(t *testing.T, g *gate, b *brake, size int) (port int) {
	return serveConns(t, func(ctx context.Context, c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				g.pass(ctx)
				if err := writeHeaders(f, frame.StreamID, b, size); err != nil {
					return
				}
			}
		}
	})
}

func writeHeaders(f *http2.Framer, stream uint32, b *brake, size int) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes()}); err != nil {
		return err
	}
	block.Reset()
	_ = encoder.WriteField(hpack.HeaderField{Name: "x-flood", Value: strings.Repeat("a", 3000), Sensitive: true})
	for sent := 0; sent < size; sent += block.Len() {
		if b.pulled.Load() {
			return errors.New("healthd has taken enough")
		}
		if err := f.WriteContinuation(stream, false, block.Bytes()); err != nil {
			return err
		}
	}
	return f.WriteContinuation(stream, true, nil)
}

// checker is a health service.
type checker struct {
	healthpb.UnimplementedHealthServer
	check func(context.Context) (*healthpb.HealthCheckResponse, error)
}

func (c checker) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return c.check(ctx)
}

// serveChecks answers each call with check.
func serveChecks(t *testing.T, check func(context.Context) (*healthpb.HealthCheckResponse, error)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, checker{check: check})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// floodMessage answers each call that it serves, in a message of size bytes.
func floodMessage(t *testing.T, g *gate, size int) (port int) {
	reply := &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
	length := []byte{0x12, byte(size | 0x80), byte(size>>7 | 0x80), byte(size >> 14 & 0x7f)}
	reply.ProtoReflect().SetUnknown(append(length, make([]byte, size)...))
	return serveChecks(t, func(ctx context.Context) (*healthpb.HealthCheckResponse, error) {
		g.pass(ctx)
		return reply, nil
	})
}

const (
	floodedContainers = 10 // with two probes each
	floodedSpec       = `
[[spec]]
name = "flooded"
match = { e2e = "grpcflood" }
readiness = { grpc = { port = %[1]d }, period = "1s", timeout = "30s", failure_threshold = 1 }
liveness = { grpc = { port = %[1]d }, period = "1s", timeout = "30s", failure_threshold = 1000 }
[[spec]]
name = "beside"
match = { e2e = "beside-grpcflood" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
`
)

// Servers that answer gRPC probes with far more than a verdict fail these probes, and take neither
// memory nor the turn of others.
func TestGRPCFloods(t *testing.T) {
	e := harness.Docker.Engine(t)
	e.Run(t, dockertest.RunOptions{Name: "beside-grpcflood", Labels: map[string]string{"e2e": "beside-grpcflood"}})
	for i := range floodedContainers { // their address is that of the test's servers
		e.Run(t, dockertest.RunOptions{Name: floodedName(i), Network: "host", Labels: map[string]string{"e2e": "grpcflood"}, Cmd: []string{"sleep", "1000"}})
	}
	for _, tt := range []struct {
		name  string
		serve func(*testing.T, *gate, *brake) (port int)
		want  string
	}{
		{"15 MB of headers", func(t *testing.T, g *gate, b *brake) int { return floodHeaders(t, g, b, 15<<20) }, "connection error: PROTOCOL_ERROR"},
		{"a message of 1 MB", func(t *testing.T, g *gate, _ *brake) int { return floodMessage(t, g, 1<<20) }, "received message larger than max"},
	} {
		t.Run(tt.name, func(t *testing.T) { floodProbes(t, e, tt.serve, tt.want) })
	}
}

func floodedName(i int) string { return fmt.Sprintf("grpcflood-%d", i) }

func floodProbes(t *testing.T, e *dockertest.Engine, serve func(*testing.T, *gate, *brake) int, want string) {
	const most = 24 << 20 // of growth; without bounds 20 probes keep 300 MiB
	g, b := newGate(2*floodedContainers), &brake{}
	d := harness.StartedDaemon(plain(harness.NewDaemon(t, e.Endpoint, fmt.Sprintf(floodedSpec, serve(t, g, b)))))
	d.Until("beside-grpcflood", "ready", harness.Ready)
	select {
	case <-g.full:
	case <-time.After(patience.Limit):
		t.Fatal("not all probes came at once")
	}
	resetPeak(d)
	before := memoryOf(d, "VmRSS")
	brakeAt(d, b, before+2*most)
	begun := time.Now()
	close(g.open)
	for i := range floodedContainers {
		d.Until(floodedName(i), "flooded three times", func(s harness.Status) bool {
			return s.Probes["readiness"].Run >= 3 && s.Probes["liveness"].Run >= 3
		})
		s, err := d.Status(floodedName(i))
		for _, probe := range []string{"readiness", "liveness"} {
			if p := s.Probes[probe]; err != nil || p.Outcome != "Failure" || !strings.Contains(p.Output, want) || len(p.Output) > 1<<10 {
				t.Errorf("%s of %s: %s %q, %v; want a failure: %s", probe, s.Name, p.Outcome, p.Output, err, want)
			}
		}
	}
	grewAtMost(d, t, before, most, "during the flood")
	if b.pulled.Load() {
		t.Error("healthd took so much that the flood was stopped")
	}
	d.Until("beside-grpcflood", "probed on", func(s harness.Status) bool {
		return s.Ready && s.Probes["readiness"].LastProbeTime.After(begun.Add(time.Second))
	})
	if n := d.CountEvents("beside-grpcflood", "NotReady"); n > 0 {
		t.Errorf("the container beside was not ready %d times", n)
	}
}
