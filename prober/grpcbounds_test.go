package prober

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// floodHeaders speaks HTTP/2 until the first call, and then sends headers of that many bytes.
func floodHeaders(size int) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, _ <-chan struct{}) {
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
				var block bytes.Buffer
				encoder := hpack.NewEncoder(&block)
				_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: block.Bytes()})
				block.Reset()
				_ = encoder.WriteField(hpack.HeaderField{Name: "x-flood", Value: strings.Repeat("a", 3000), Sensitive: true})
				for sent := 0; sent < size; sent += block.Len() {
					if f.WriteContinuation(frame.StreamID, false, block.Bytes()) != nil {
						return
					}
				}
				_ = f.WriteContinuation(frame.StreamID, true, nil)
			}
		}
	}
}

// A server's headers and message cost no more memory than a server may need.
func TestGRPCBounds(t *testing.T) {
	port := rawServer(t, false, floodHeaders(15<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const probes = 20
	var wg sync.WaitGroup
	for range probes {
		wg.Go(func() {
			if r := ask(t, Handler{GRPC: &GRPC{Port: port}}); r.Outcome != Failure || r.Cause == Timeout {
				t.Errorf("got %+v", r)
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) / probes; used > 2<<20 {
		t.Errorf("a probe allocated %d bytes", used)
	}
	large := &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
	large.ProtoReflect().SetUnknown(append([]byte{0x12, 0x80, 0x50}, make([]byte, 10<<10)...)) // a field of 10 KiB
	r := ask(t, Handler{GRPC: &GRPC{Port: grpcServer(t, healthService{check: func(context.Context, string) (*healthpb.HealthCheckResponse, error) { return large, nil }})}})
	wantResult(t, r, Failure, Status)
	wantOutput(t, r, "larger than max")
}

// A server that never comes to its reply costs no more than a bound.
func TestGRPCEndlessReplies(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(*h2Conn) error
		want string
	}{
		{"pings", func(c *h2Conn) error { return c.WritePing(false, [8]byte{}) }, "no end of the reply within 262144 bytes"},
		{"settings", func(c *h2Conn) error { return c.WriteSettings() }, "no end of the reply within 262144 bytes"},
		{"early hints", func(c *h2Conn) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields(":status", "103"), EndHeaders: true})
		}, "no end of the reply within 262144 bytes"},
		{"unknown frames", func(c *h2Conn) error { return c.WriteRawFrame(0xbb, 0, 0, make([]byte, 9000)) }, "no end of the reply within 262144 bytes"},
		{"padding", func(c *h2Conn) error { return c.WriteDataPadded(c.stream, false, nil, make([]byte, 255)) }, "received 65536-bytes data exceeding the limit 65535 bytes"},
		{"data before headers", func(c *h2Conn) error { return c.WriteData(c.stream, false, make([]byte, 1000)) }, "received 66000-bytes data exceeding the limit 65535 bytes"},
		{"pushed streams", func(c *h2Conn) error {
			return c.WritePushPromise(http2.PushPromiseParam{StreamID: c.stream, PromiseID: 2, BlockFragment: c.fields(":method", "GET"), EndHeaders: true})
		}, "received PUSH_PROMISE, which the client has switched off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := h2Server(t, func(c *h2Conn) {
				go func() { _, _ = io.Copy(io.Discard, c) }() // what answers them
				for tt.send(c) == nil {
				}
			})
			r := ask(t, Handler{GRPC: &GRPC{Port: port}})
			if r.Outcome != Failure {
				t.Errorf("got %+v", r)
			}
			wantOutput(t, r, tt.want)
		})
	}
}

func TestGRPCService(t *testing.T) {
	asked := make(chan string, 1)
	port := grpcServer(t, healthService{check: func(_ context.Context, service string) (*healthpb.HealthCheckResponse, error) {
		asked <- service
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}})
	for _, service := range []string{"", "ä \n", strings.Repeat("x", grpcFrame-9), strings.Repeat("x", grpcMaxService)} {
		wantResult(t, ask(t, Handler{GRPC: &GRPC{Port: port, Service: service}}), Success, "")
		if got := <-asked; got != service {
			t.Errorf("asked for %d bytes, want %d", len(got), len(service))
		}
	}
	for service, want := range map[string]string{
		strings.Repeat("x", grpcMaxService+1): "the name of the service has 49153 bytes, more than 49152",
		"\xff":                                "cannot use the name of the service: ",
	} {
		if _, err := New(Config{}).Probe(Handler{GRPC: &GRPC{Port: port, Service: service}}, loopback); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestGRPCTimeoutHeader(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0u"}, {0, "0u"}, {1, "1u"}, {1500, "2u"}, {time.Second, "1000000u"}, {99999999 * time.Microsecond, "99999999u"},
		{99999999*time.Microsecond + 1, "100000m"}, {time.Hour, "3600000m"}, {99999999*time.Millisecond + 1, "100000S"}, {math.MaxInt64, "99999999S"},
	} {
		if got, want := string(appendTimeout([]byte("x"), tt.d)), "x"+string(rune(len(tt.want)))+tt.want; got != want {
			t.Errorf("%v: got %q, want %q", tt.d, got, want)
		}
	}
	left, ends := make(chan time.Duration, 1), make(chan time.Time, 1)
	port := grpcServer(t, healthService{check: func(ctx context.Context, _ string) (*healthpb.HealthCheckResponse, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		ends <- deadline
		return &healthpb.HealthCheckResponse{}, nil
	}})
	least := time.Now().Add(longTimeout) // the server must not give up before healthd does
	ask(t, Handler{GRPC: &GRPC{Port: port}})
	if d, end := <-left, <-ends; d > longTimeout || end.Before(least) {
		t.Errorf("the server has %v, until %v, want %v, until %v or later", d, end, longTimeout, least)
	}
}

// healthd's host keeps neither ports nor descriptors of calls.
func TestGRPCLeavesNothing(t *testing.T) {
	a := newAuthority(t, "a")
	ports := []int{
		grpcServer(t, health.NewServer()),
		secureGRPC(t, a.server("api", time.Now().Add(time.Hour))),
		h2Server(t, func(c *h2Conn) { c.trailers(":status", "404") }),
		closedPort(t),
	}
	probes, descriptors := make([]Probe, len(ports)), func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	waits := make([]func() int, len(ports))
	for i, port := range ports {
		h := &GRPC{Port: port}
		if i == 1 {
			h.TLS = &TLSClient{}
		}
		probes[i], waits[i] = mustProbe(t, Config{}, Handler{GRPC: h}, loopback), countTimeWaits(t, port)
	}
	before := descriptors()
	for range 100 {
		for _, p := range probes {
			p.Ask(t.Context(), longTimeout)
		}
	}
	// The servers' ends are in this process, too, and may still be open.
	if n := descriptors() - before; n > 50 {
		t.Errorf("%d more descriptors are open", n)
	}
	for i, count := range waits {
		if n := count(); n > 0 {
			t.Errorf("%d connections to server %d are in TIME_WAIT", n, i)
		}
	}
}
