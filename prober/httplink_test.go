package prober

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// httpsServers returns the ports of servers of HTTPS that say which version they speak, by that version.
func httpsServers(t *testing.T) map[string]int {
	t.Helper()
	config := newAuthority(t, "a").server("api", time.Now().Add(time.Hour))
	ports := map[string]int{}
	for version, protocol := range map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2": http2.NextProtoTLS} {
		c := config.Clone()
		c.NextProtos = []string{protocol}
		ports[version] = secureServer(t, c, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	}
	return ports
}

// startStreams starts a server of HTTP/2 with TLS. answer is that of startCalls.
func startStreams(t *testing.T, answer func(c *h2Conn, conn, request int) bool) *callServer {
	t.Helper()
	config := newAuthority(t, "a").server("api", time.Now().Add(time.Hour))
	config.NextProtos = []string{http2.NextProtoTLS}
	s := &callServer{}
	s.port = rawServer(t, false, func(raw net.Conn, _ <-chan struct{}) {
		conn := int(s.conns.Add(1))
		c := tls.Server(raw, config)
		defer c.Close()
		h := newH2Conn(c)
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		_ = h.WriteSettings()
		for request := 1; h.nextRequest(); request++ {
			s.calls.Add(1)
			if !answer(h, conn, request) {
				return
			}
		}
	})
	return s
}

// nextRequest waits for a request without a body, and returns false when the client has closed.
func (c *h2Conn) nextRequest() bool {
	asked := false
	c.await(func(f http2.Frame) bool {
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			asked, c.stream = true, h.StreamID
		}
		return asked
	})
	return asked
}

// fine is a complete reply.
func (c *h2Conn) fine() {
	c.headers(false, ":status", "200")
	_ = c.WriteData(c.stream, true, []byte("ok"))
}

// keptHTTPS is a probe that keeps its connection. It is closed when the test ends.
func keptHTTPS(t *testing.T, port int, client *TLSClient) Probe {
	t.Helper()
	return way{get: HTTPGet{Scheme: "https", TLS: client}}.probe(t, port)
}

func TestHTTP2Kept(t *testing.T) {
	var streams []uint32
	s := startStreams(t, func(c *h2Conn, _, _ int) bool {
		streams = append(streams, c.stream) // the probe waits for it
		c.fine()
		return true
	})
	left := countTimeWaits(t, s.port)
	p := keptHTTPS(t, s.port, nil)
	for range 4 {
		wantSuccess(t, p)
	}
	s.want(t, 1, 4)
	if got := fmt.Sprint(streams); got != "[1 3 5 7]" {
		t.Errorf("asked on the streams %s", got)
	}
	p.Close()
	if n := left(); n > 0 {
		t.Errorf("%d ports are in TIME_WAIT", n)
	}
	wantSuccess(t, p)
	wantSuccess(t, p)
	s.want(t, 3, 6)
}

// A server may leave a kept connection at any time. That fails no probe.
func TestHTTP2ServerLeavesKeptConnection(t *testing.T) {
	for name, leave := range map[string]func(*h2Conn) bool{
		"end":            func(*h2Conn) bool { return false },
		"GOAWAY":         func(c *h2Conn) bool { return c.WriteGoAway(c.stream-2, http2.ErrCodeNo, nil) == nil },
		"GOAWAY and end": func(c *h2Conn) bool { _ = c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil); return false },
		"GOAWAY for pings": func(c *h2Conn) bool {
			return c.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings")) == nil
		},
		"refusal":  func(c *h2Conn) bool { return c.WriteRSTStream(c.stream, http2.ErrCodeRefusedStream) == nil },
		"nonsense": func(c *h2Conn) bool { _, err := c.Write(make([]byte, 99)); return err == nil },
		"408":      func(c *h2Conn) bool { c.headers(true, ":status", "408"); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStreams(t, func(c *h2Conn, conn, request int) bool {
				if conn == 1 && request == 2 {
					return leave(c)
				}
				c.fine()
				return true
			})
			p := keptHTTPS(t, s.port, nil)
			for range 3 {
				wantSuccess(t, p)
			}
			s.want(t, 2, 4)
		})
	}
}

// A server may also leave the connection while nobody asks, or with its reply.
func TestHTTP2ServerLeavesIdleConnection(t *testing.T) {
	for name, leave := range map[string]func(*h2Conn){
		"end": func(c *h2Conn) { _ = c.Close() },
		"GOAWAY": func(c *h2Conn) {
			_ = c.WriteGoAway(c.stream, http2.ErrCodeNo, nil)
			_ = c.WritePing(false, [8]byte{})
			c.await(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }) // the client knows it
		},
		"pings": func(c *h2Conn) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.await(func(http2.Frame) bool { return false })
			}()
			for c.WritePing(false, [8]byte{}) == nil {
			}
			<-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			s := startStreams(t, func(c *h2Conn, _, _ int) bool {
				c.fine()
				leave(c)
				left <- struct{}{}
				return true
			})
			p := keptHTTPS(t, s.port, nil)
			for range 5 {
				wantSuccess(t, p)
				<-left
			}
			s.want(t, 5, 5)
		})
	}
}

// Once the server answered, its answer counts, and the next probe must not depend on the same connection.
func TestHTTP2KeptAfterFailure(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(c *h2Conn) bool
		cause  Cause
	}{
		{"status", func(c *h2Conn) bool { c.headers(true, ":status", "503"); return true }, Status},
		{"end after the headers", func(c *h2Conn) bool { c.headers(false, ":status", "200"); return false }, Reset},
		{"half a body", func(c *h2Conn) bool { c.headers(false, ":status", "200"); c.data([]byte("o")); return true }, Timeout},
		{"silence", func(*h2Conn) bool { return true }, Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantNewConnection(t, tt.cause, func() (Probe, counted) {
				s := startStreams(t, func(c *h2Conn, conn, request int) bool {
					if conn == 1 && request == 2 {
						return tt.answer(c)
					}
					c.fine()
					return true
				})
				return keptHTTPS(t, s.port, nil), s.counts
			})
		})
	}
}

// A server that takes no more than a few requests on a connection tells it with its replies.
func TestHTTP2FewRequests(t *testing.T) {
	s := startStreams(t, func(c *h2Conn, _, request int) bool {
		if request == 3 {
			_ = c.WriteGoAway(c.stream, http2.ErrCodeNo, nil)
		}
		c.fine()
		return true
	})
	p := keptHTTPS(t, s.port, nil)
	for range 9 {
		wantSuccess(t, p)
	}
	s.want(t, 3, 9)
}

// Certificates are those of the connection, whenever it was made, and a new one shows once it is too old.
func TestKeptCertificate(t *testing.T) {
	for version, protocol := range map[string]string{"HTTP/1.1": "http/1.1", "HTTP/2": http2.NextProtoTLS} {
		t.Run(version, func(t *testing.T) {
			a := newAuthority(t, "a")
			ends := []time.Time{time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2 * time.Hour).Truncate(time.Second)}
			servers := []*tls.Config{a.server("api", ends[0]), a.server("api", ends[1])}
			var serves, handshakes atomic.Int32
			cert, key := a.client()
			config := a.wantsClients(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				handshakes.Add(1)
				return &servers[serves.Load()].Certificates[0], nil
			}})
			config.NextProtos = []string{protocol}
			port := secureServer(t, config, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
			p := keptHTTPS(t, port, &TLSClient{Verify: true, CA: a.pem, ServerName: "api", Cert: cert, Key: key})
			want := func(end time.Time, conns int32) (err error) {
				for range 3 {
					r := p.Ask(t.Context(), longTimeout)
					if wantResult(t, r, Success, ""); !r.Certificate.Equal(end) {
						err = fmt.Errorf("certificate until %v, want %v", r.Certificate, end)
					}
				}
				if n := handshakes.Swap(0); n != conns {
					err = errors.Join(err, fmt.Errorf("%d handshakes, want %d", n, conns))
				}
				return err
			}
			links := p.(probe).asker.(*httpProbe).links
			getsOld := func() {
				if links.conn != nil {
					links.conn.since = links.conn.since.Add(-MaxAge)
				}
			}
			whileKept(t, func() error {
				serves.Store(0)
				err := want(ends[0], 1)
				serves.Store(1)
				err = errors.Join(err, want(ends[0], 0))
				getsOld()
				err = errors.Join(err, want(ends[1], 1))
				getsOld()
				return err
			})
		})
	}
}

// Without a certificate that the server takes, each probe tells why, on a connection of its own.
func TestKeptWithoutClientCertificate(t *testing.T) {
	a := newAuthority(t, "a")
	port := secureServer(t, a.wantsClients(a.server("api", time.Now().Add(time.Hour))), func(http.ResponseWriter, *http.Request) {})
	p := keptHTTPS(t, port, &TLSClient{Verify: true, CA: a.pem, ServerName: "api"})
	for range 2 {
		r := p.Ask(t.Context(), longTimeout)
		if wantOutput(t, r, "and healthd has none"); r.Outcome != Failure || r.Certificate.IsZero() {
			t.Errorf("got %+v", r)
		}
	}
}

// A connection that may be kept tells the same of a reply as one that may not.
func TestKeptLikeNew(t *testing.T) {
	discardLog(t)
	replies := oddReplies(often(50, 10))
	serve := numbered(replies)
	config := newAuthority(t, "a").server("api", time.Now().Add(time.Hour))
	plain := rawServer(t, false, serve)
	secure := rawServer(t, false, func(raw net.Conn, quit <-chan struct{}) {
		c := tls.Server(raw, config)
		serve(c, quit)
		_ = c.Close()
	})
	for _, tt := range []struct {
		get     HTTPGet
		replies []string
	}{
		{HTTPGet{Host: "localhost", Port: plain}, replies},
		{HTTPGet{Scheme: "https", Port: secure}, handWritten}, // handshakes take long
	} {
		for n, reply := range tt.replies {
			tt.get.Path = "/" + strconv.Itoa(n)
			if err := keptDiffersFromNew(t, tt.get, longTimeout); err != nil {
				t.Errorf("%+v: reply %.999q: %v", tt.get, reply, err)
			}
		}
	}
	// It waits for a request while the probe waits for its handshake.
	briefly(t, func(timeout time.Duration) error {
		return keptDiffersFromNew(t, HTTPGet{Scheme: "https", Port: plain, Path: "/0"}, timeout)
	})
}

func keptDiffersFromNew(t *testing.T, get HTTPGet, timeout time.Duration) error {
	t.Helper()
	got := way{get: get}.probe(t, get.Port).Ask(t.Context(), timeout)
	want := mustProbe(t, Config{UserAgent: "healthd/1.0"}, Handler{HTTPGet: &get}, loopback).Ask(t.Context(), timeout)
	if got.Outcome != want.Outcome || got.Cause != want.Cause || got.Warning != want.Warning || !got.Certificate.Equal(want.Certificate) ||
		addresses.ReplaceAllString(got.Output, "") != addresses.ReplaceAllString(want.Output, "") {
		return fmt.Errorf("\ngot  %v %s %.199q\nwant %v %s %.199q", got.Outcome, got.Cause, got.Output, want.Outcome, want.Cause, want.Output)
	}
	return nil
}

// A server that accepts and then hangs costs a probe its timeout, and leaves nothing behind.
func TestKeptHandshakeHangs(t *testing.T) {
	port := rawServer(t, false, hang)
	before := descriptors(t)
	p := keptHTTPS(t, port, nil)
	for range 2 {
		briefly(t, func(timeout time.Duration) error {
			return differs(p.Ask(t.Context(), timeout), Failure, Timeout, withTimeout("no reply within 150ms", timeout))
		})
	}
	waitForNoGoroutine(t, "crypto/tls.(*Conn)")
	if n := descriptors(t) - before; n > 2 { // the server's
		t.Errorf("%d more descriptors are open", n)
	}
}

// Kept connections are those of the network namespace that the probe asks in.
func TestKeptInsideNamespaces(t *testing.T) {
	prober := New(Config{})
	var probes []Probe
	var names []string
	for _, name := range []string{"red", "blue"} {
		c := startInside(t, name)
		for _, get := range []HTTPGet{
			{Port: insideHTTP}, {Host: "localhost", Port: insideHTTP}, {Port: insideHTTP, Path: "/redirect"},
			{Port: insideHTTPS, Scheme: "https"}, {Host: "localhost", Port: insideHTTPS, Scheme: "https"},
		} {
			get.Via, get.KeepAlive = ViaContainer, true
			p, err := prober.Probe(Handler{HTTPGet: &get}, c.target())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			probes, names = append(probes, p), append(names, name)
		}
	}
	before := 0
	for round := range 5 {
		for i, p := range probes {
			if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success || r.Output != names[i] {
				t.Errorf("%s answered as %v %q", names[i], r.Outcome, r.Output)
			}
		}
		if round == 0 {
			before = descriptors(t)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	wantAllHome(t)
}

// Without keep-alive, HTTPS leaves no port of healthd behind either.
func TestHTTPSLeavesNoPorts(t *testing.T) {
	for version, port := range httpsServers(t) {
		left := countTimeWaits(t, port)
		for range 10 {
			if r := ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: port}}); r.Outcome != Success {
				t.Errorf("%s: %+v", version, r)
			}
		}
		if n := left(); n > 0 {
			t.Errorf("%s: %d ports are in TIME_WAIT", version, n)
		}
	}
}

// A name may lead elsewhere at any time: a probe asks where it leads when the connection gets too old.
func TestKeptConnectionOfANameGetsOld(t *testing.T) {
	w := way{get: HTTPGet{Host: "localhost"}}
	whileKept(t, func() (differs error) {
		w.differs = &differs
		s := w.start(t, func(int, int) string { return replyOK })
		p := w.probe(t, s.port)
		wantSuccess(t, p)
		wantSuccess(t, p)
		if links := p.(probe).asker.(*httpProbe).links; links.conn != nil {
			links.conn.since = links.conn.since.Add(-MaxAge)
		}
		wantSuccess(t, p)
		wantSuccess(t, p)
		s.want(t, 2, 4)
		return differs
	})
}
