package prober

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns what this process has used, in user and system mode.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports the allocations and CPU time of f.
func measure(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		f()
	}
	spent := cpuTime(b) - before
	b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

func benchProbe(b *testing.B, address string, h func(port int) Handler) {
	b.Helper()
	ap := netip.MustParseAddrPort(address)
	p, err := New(Config{}).Probe(h(int(ap.Port())), Target{Address: ap.Addr().String()})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	benchAsk(b, p)
}

func benchAsk(b *testing.B, p Probe) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	measure(b, func() {
		if r := p.Ask(ctx, time.Second); r.Outcome != Success {
			b.Fatal(r)
		}
	})
}

func BenchmarkHTTP(b *testing.B) {
	web, _ := startServer(b)
	benchProbe(b, web, func(port int) Handler {
		return Handler{HTTPGet: &HTTPGet{Path: "/healthz", Port: port}}
	})
}

// BenchmarkHTTPKept is BenchmarkHTTP on one connection.
func BenchmarkHTTPKept(b *testing.B) {
	web, _ := startServer(b)
	benchProbe(b, web, func(port int) Handler {
		return Handler{HTTPGet: &HTTPGet{Path: "/healthz", Port: port, KeepAlive: true}}
	})
}

// BenchmarkHTTPS has a handshake for each probe.
func BenchmarkHTTPS(b *testing.B) { benchHTTPS(b, false) }

// BenchmarkHTTPSKept is BenchmarkHTTPS on one connection.
func BenchmarkHTTPSKept(b *testing.B) { benchHTTPS(b, true) }

func benchHTTPS(b *testing.B, keep bool) {
	eachHTTPS(b, func(b *testing.B, address string) {
		benchProbe(b, address, func(port int) Handler {
			return Handler{HTTPGet: &HTTPGet{Scheme: "https", Path: "/healthz", Port: port, KeepAlive: keep}}
		})
	})
}

func eachHTTPS(b *testing.B, bench func(b *testing.B, address string)) {
	for name, role := range map[string]string{"HTTP1": http1Role, "HTTP2": http2Role} {
		b.Run(name, func(b *testing.B) { bench(b, startRole(b, role)) })
	}
}

// BenchmarkHTTPSIdle tells what a connection costs while it is kept, as bytes/conn and goroutines/conn.
func BenchmarkHTTPSIdle(b *testing.B) {
	eachHTTPS(b, func(b *testing.B, address string) {
		const conns = 200
		var bytes, goroutines float64
		for b.Loop() {
			bytesBefore, goroutinesBefore := inUse(), runtime.NumGoroutine()
			probes := keepHTTPS(b, address, conns)
			bytes = float64(inUse()-bytesBefore) / conns
			goroutines = float64(runtime.NumGoroutine()-goroutinesBefore) / conns
			for _, p := range probes {
				p.Close()
			}
		}
		b.ReportMetric(bytes, "bytes/conn")
		b.ReportMetric(goroutines, "goroutines/conn")
	})
}

// keepHTTPS returns so many probes of one server that keep a connection each.
func keepHTTPS(b *testing.B, address string, n int) []Probe {
	b.Helper()
	ap := netip.MustParseAddrPort(address)
	prober, probes := New(Config{MaxKept: n}), make([]Probe, n)
	for i := range probes {
		var err error
		h := Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: int(ap.Port()), KeepAlive: true}}
		if probes[i], err = prober.Probe(h, Target{Address: ap.Addr().String()}); err != nil {
			b.Fatal(err)
		}
		if r := probes[i].Ask(b.Context(), longTimeout); r.Outcome != Success {
			b.Fatal(r)
		}
	}
	return probes
}

// inUse returns how many bytes the heap and the stacks of this process have, without garbage.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what pools hold is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkHTTPExpect looks at the body, too.
func BenchmarkHTTPExpect(b *testing.B) {
	web, _ := startServer(b)
	benchProbe(b, web, func(port int) Handler {
		expect := &Expect{Status: []StatusRange{{200, 299}}, Body: "ok"}
		return Handler{HTTPGet: &HTTPGet{Path: "/healthz", Port: port, Expect: expect}}
	})
}

// BenchmarkHTTPChunked has replies that net/http reads.
func BenchmarkHTTPChunked(b *testing.B) {
	web, _ := startServer(b)
	benchProbe(b, web, func(port int) Handler {
		return Handler{HTTPGet: &HTTPGet{Path: "/chunked", Port: port}}
	})
}

// BenchmarkHTTPMany runs several probes at once, as a busy daemon does.
func BenchmarkHTTPMany(b *testing.B) {
	web, _ := startServer(b)
	benchMany(b, web, func(port int) Handler {
		return Handler{HTTPGet: &HTTPGet{Path: "/healthz", Port: port}}
	})
}

// BenchmarkGRPCMany is BenchmarkHTTPMany for gRPC.
func BenchmarkGRPCMany(b *testing.B) {
	benchMany(b, startRole(b, grpcRole), func(port int) Handler {
		return Handler{GRPC: &GRPC{Port: port}}
	})
}

func benchMany(b *testing.B, address string, h func(port int) Handler) {
	b.Helper()
	ap := netip.MustParseAddrPort(address)
	prober := New(Config{})
	b.ReportAllocs()
	b.SetParallelism(8)
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		p, err := prober.Probe(h(int(ap.Port())), Target{Address: ap.Addr().String()})
		if err != nil {
			b.Error(err)
			return
		}
		for pb.Next() {
			if r := p.Ask(b.Context(), time.Second); r.Outcome != Success {
				b.Error(r)
			}
		}
	})
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

func BenchmarkHTTPNetHTTP(b *testing.B) {
	web, _ := startServer(b)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: time.Second}
	measure(b, func() {
		resp, err := client.Get("http://" + web + "/healthz")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput)); err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkTCP(b *testing.B) {
	_, plain := startServer(b)
	benchProbe(b, plain, func(port int) Handler {
		return Handler{TCPSocket: &TCPSocket{Port: port}}
	})
}

func BenchmarkTCPNetDialer(b *testing.B) {
	_, plain := startServer(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	d := net.Dialer{Timeout: time.Second}
	measure(b, func() {
		c, err := d.DialContext(ctx, "tcp", plain)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.(*net.TCPConn).SetLinger(0); err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkGRPC(b *testing.B) {
	benchProbe(b, startRole(b, grpcRole), func(port int) Handler {
		return Handler{GRPC: &GRPC{Port: port}}
	})
}

// BenchmarkGRPCKept is BenchmarkGRPC on one connection.
func BenchmarkGRPCKept(b *testing.B) {
	benchProbe(b, startRole(b, grpcRole), func(port int) Handler {
		return Handler{GRPC: &GRPC{Port: port, KeepAlive: true}}
	})
}

// BenchmarkGRPCLibrary is one call by grpc-go's client.
func BenchmarkGRPCLibrary(b *testing.B) {
	address := startRole(b, grpcRole)
	ap := netip.MustParseAddrPort(address)
	p := newLibraryProbe(b, &GRPC{Port: int(ap.Port())}, Target{Address: ap.Addr().String()})
	benchAsk(b, p)
}

// BenchmarkVia compares probes of one container from the host and inside its network
// namespace. Both ask at 127.0.0.1, so that only the way in differs.
func BenchmarkVia(b *testing.B) {
	c := startInside(b, "ok")
	http := func(via Via, port int) Handler { return Handler{HTTPGet: &HTTPGet{Via: via, Port: port}} }
	tcp := func(via Via, port int) Handler { return Handler{TCPSocket: &TCPSocket{Via: via, Port: port}} }
	for _, bb := range []struct {
		name   string
		h      func(Via, int) Handler
		inside int
	}{{"HTTP", http, insideHTTP}, {"TCP", tcp, insideTCP}} {
		b.Run(bb.name+"/via=host", func(b *testing.B) {
			web, plain := startServer(b)
			address := map[string]string{"HTTP": web, "TCP": plain}[bb.name]
			benchVia(b, c, bb.h(ViaHost, int(netip.MustParseAddrPort(address).Port())))
		})
		b.Run(bb.name+"/via=container", func(b *testing.B) { benchVia(b, c, bb.h(ViaContainer, bb.inside)) })
	}
}

func benchVia(b *testing.B, c *inside, h Handler) {
	b.Helper()
	p, err := New(Config{}).Probe(h, Target{ID: c.id, Address: "127.0.0.1", Namespace: c.namespace})
	if err != nil {
		b.Fatal(err)
	}
	benchAsk(b, p)
}
