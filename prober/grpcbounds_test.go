package prober

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
			if r := ask(t, Handler{GRPC: &GRPC{Port: port}}); r.Outcome != Failure || r.Latency > longTimeout/2 {
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
