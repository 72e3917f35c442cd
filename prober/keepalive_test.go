package prober

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Without headers of the user the server gets two: Connection is not needed.
func TestKeepAlive(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(int, int) string { return replyOK })
		left := countTimeWaits(t, s.port)
		w.get.Path = "/healthz"
		p := w.probe(t, s.port)
		for range 10 {
			wantSuccess(t, p)
		}
		s.want(t, 1, 10)
		want := fmt.Sprintf("GET /healthz HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: healthd/1.0\r\nAccept: */*\r\n\r\n", w.host(), s.port)
		if got := s.last.Load(); got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
		p.Close()
		if n := left(); n > 0 {
			t.Errorf("%d ports are in TIME_WAIT", n)
		}
		wantSuccess(t, p)
		wantSuccess(t, p)
		s.want(t, 3, 12)
	})
}

// Two probes of one server have a connection each.
func TestKeepAliveIsOfOneProbe(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(int, int) string { return replyOK })
		one, other := w.probe(t, s.port), w.probe(t, s.port)
		for range 3 {
			wantSuccess(t, one)
			wantSuccess(t, other)
		}
		s.want(t, 2, 6)
	})
}

// The replies after which a connection may be used again, and those after which it may not.
func TestKeepAliveAfterReply(t *testing.T) {
	discardLog(t)
	closes := func(header string) string { return headOK + header + "\r\nContent-Length: 2\r\n\r\nok" }
	for _, tt := range []struct {
		name, reply string
		kept        bool
	}{
		{"length", replyOK, true},
		{"chunked", headChunked + "\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"trailer", headChunked + "\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n", true},
		{"interim", "HTTP/1.1 103 Early Hints\r\n\r\n" + replyOK, true},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", true},
		{"said", closes("Connection: keep-alive"), true},
		{"other option", closes("Connection: closed"), true},
		{"old and said", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", true},
		{"as long as is read", headOK + fmt.Sprintf("Content-Length: %d\r\n\r\n", MaxOutput) + strings.Repeat("x", MaxOutput), true},
		{"old", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		{"close", closes("Connection: close"), false},
		{"close among others", closes("Connection: a\r\nConnection: b , CLOSE"), false},
		{"chunked and close", headChunked + "Connection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"longer than is read", headOK + fmt.Sprintf("Content-Length: %d\r\n\r\n", MaxOutput+1) + strings.Repeat("x", MaxOutput+1), false},
		{"more than the reply", replyOK + "x", false},
		{"two replies", replyOK + replyOK, false},
		{"more than the chunks", headChunked + "\r\n2\r\nok\r\n0\r\n\r\nx", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				s := w.start(t, func(int, int) string { return tt.reply })
				p := w.probe(t, s.port)
				for range 3 {
					wantSuccess(t, p)
					if !tt.kept { // net/http sees what follows a reply a little later
						waitForNoGoroutine(t, "net/http.(*persistConn)")
					}
				}
				if tt.kept {
					s.want(t, 1, 3)
				} else {
					s.want(t, 3, 3)
				}
			})
		})
	}
}

// The next probe after a failure must not depend on the same connection.
func TestKeepAliveAfterFailure(t *testing.T) {
	const head = "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n"
	for _, tt := range []struct {
		name, reply string
		cause       Cause
	}{
		{"status", head + "no", Status},
		{"half a body", headOK + "Content-Length: 3\r\n\r\nok", Timeout},
		{"half a head", headOK, Timeout},
		{"silence", " ", Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				wantNewConnection(t, tt.cause, func() (Probe, counted) {
					s := w.start(t, func(conn, request int) string {
						if conn == 1 && request == 2 {
							return tt.reply
						}
						return replyOK
					})
					return w.probe(t, s.port), s.counts
				})
			})
		})
	}
}

// A status that is expected is no failure, whatever it is.
func TestKeepAliveOfExpectedStatus(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(int, int) string { return "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno" })
		expect := Expect{WarningHeader: "A"}
		if w.get.Expect == nil {
			expect.WarningHeader = ""
		}
		expect.Status, expect.Body = []StatusRange{{503, 503}}, "no"
		w.get.Expect = &expect
		p := w.probe(t, s.port)
		wantSuccess(t, p)
		wantSuccess(t, p)
		s.want(t, 1, 2)
	})
}

// k/k#15643: the server closes the idle connection, before the request or when it arrives.
func TestServerClosesKeptConnection(t *testing.T) {
	for name, second := range map[string]string{
		"without a reply":      "",
		"with a status for it": "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"with nonsense":        "bye\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				s := w.start(t, func(conn, request int) string {
					if conn%2 == 1 && request == 2 {
						return second
					}
					return replyOK
				})
				p := w.probe(t, s.port)
				for range 3 {
					wantSuccess(t, p)
				}
				s.want(t, 2, 4)
			})
		})
	}
}

// A server that never answers is asked twice at most.
func TestServerClosesEachConnection(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(conn, request int) string {
			if conn == 1 && request == 1 {
				return replyOK
			}
			return ""
		})
		p := w.probe(t, s.port)
		wantSuccess(t, p)
		wantResult(t, p.Ask(t.Context(), longTimeout), Failure, Reset)
		s.want(t, 2, 3)
		wantResult(t, p.Ask(t.Context(), longTimeout), Failure, Reset)
		s.want(t, 3, 4)
	})
}

func TestServerClosesIdleConnection(t *testing.T) {
	for name, farewell := range map[string]string{"silently": "", "with words": "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				var closed sync.WaitGroup
				port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
					c = w.server(c)
					readHeadOf(c)
					_, _ = io.WriteString(c, replyOK+farewell)
					_ = c.Close()
					closed.Done()
				})
				p := w.probe(t, port)
				for range 10 {
					closed.Add(1)
					wantSuccess(t, p)
					closed.Wait()
				}
			})
		})
	}
}

// A request that the server may have read is not sent again when that is not safe.
func TestKeepAliveOfMethods(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		for method, conns := range map[string]int{"": 1, http.MethodGet: 1, http.MethodHead: 1, http.MethodOptions: 1, http.MethodPost: 3} {
			s := w.start(t, func(int, int) string {
				if method == http.MethodHead {
					return strings.TrimSuffix(replyOK, "ok")
				}
				return replyOK
			})
			w.get.Method = method
			p := w.probe(t, s.port)
			for range 3 {
				wantSuccess(t, p)
			}
			s.want(t, conns, 3)
			if closes := strings.Contains(s.last.Load().(string), "\r\nConnection: close\r\n"); closes != (method == http.MethodPost) {
				t.Errorf("%s: the last request asks the server to close: %v", method, closes)
			}
		}
	})
}

// What a redirect leads to gets a connection of its own.
func TestKeepAliveOfRedirects(t *testing.T) {
	elsewhere := webServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(int, int) string {
			return fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: http://%s:%d/\r\nContent-Length: 0\r\n\r\n", w.host(), elsewhere)
		})
		p := w.probe(t, s.port)
		for range 3 {
			r := p.Ask(t.Context(), longTimeout)
			if wantResult(t, r, Success, ""); r.Output != "ok" || r.Certificate.IsZero() != (w.tls == nil) {
				t.Errorf("got %+v", r)
			}
		}
		s.want(t, 1, 3)
	})
}

func TestKeepAliveIsCancelled(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int32
		s := w.start(t, func(int, int) string {
			if asked.Add(1) == 2 {
				cancel()
				return headOK
			}
			return replyOK
		})
		p := w.probe(t, s.port)
		wantSuccess(t, p)
		wantResult(t, p.Ask(ctx, longTimeout), Unknown, NotAsked)
		wantSuccess(t, p)
		s.want(t, 2, 3)
	})
}

// A header of the reply is read on a kept connection, too.
func TestKeepAliveWithWarning(t *testing.T) {
	w := way{get: HTTPGet{Expect: &Expect{WarningHeader: "X-Degraded"}}}
	s := w.start(t, func(_, request int) string {
		return headOK + fmt.Sprintf("X-Degraded: disk %d\r\nContent-Length: 0\r\n\r\n", request)
	})
	p := w.probe(t, s.port)
	for i := range 3 {
		r := p.Ask(t.Context(), longTimeout)
		wantResult(t, r, Success, Warned)
		wantOutput(t, r, fmt.Sprintf("disk %d", i+1))
	}
	s.want(t, 1, 3)
}

func TestKeptConnectionsOfAProber(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		s := w.start(t, func(int, int) string { return replyOK })
		prober := New(Config{MaxKept: 1})
		w.get.Port, w.get.KeepAlive = s.port, true
		var probes []Probe
		for range 3 {
			p, err := prober.Probe(Handler{HTTPGet: &w.get}, loopback)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			probes = append(probes, p)
		}
		for range 4 {
			for _, p := range probes {
				wantSuccess(t, p)
			}
		}
		s.want(t, 1+2*4, 3*4)
	})
}

// Probes that are closed while they ask leave no connection behind.
func TestClosedProbesLeaveNoDescriptors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "ok")
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	calls := startCalls(t, always((*h2Conn).ok))
	secure := httpsServers(t)
	prober := New(Config{})
	ask := func(h Handler) {
		p, err := prober.Probe(h, loopback)
		if err != nil {
			t.Error(err)
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				if r := p.Ask(t.Context(), longTimeout); r.Outcome != Success {
					t.Errorf("%+v", r)
				}
			}
		})
		wg.Go(p.Close)
		wg.Wait()
	}
	get := func(path string) Handler {
		return Handler{HTTPGet: &HTTPGet{Port: portOf(t, server.URL), Path: path, KeepAlive: true}}
	}
	named := Handler{HTTPGet: &HTTPGet{Host: "localhost", Port: portOf(t, server.URL), KeepAlive: true}}
	https := func(version string) Handler {
		return Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: secure[version], KeepAlive: true}}
	}
	call := Handler{GRPC: &GRPC{Port: calls.port, KeepAlive: true}}
	gone := func() { // also the server's side, which is in this process, too
		server.CloseClientConnections()
		waitForNoGoroutine(t, "net/http.(*conn).serve", "rawServer.func1.1", "net/http.(*persistConn)", "net/http.(*http2ClientConn)")
	}
	ask(get("/"))
	ask(call)
	gone()
	before := descriptors(t)
	for range often(20, 5) {
		var wg sync.WaitGroup
		for _, h := range []Handler{get("/"), get("/chunked"), call, call, named, https("HTTP/1.1"), https("HTTP/2")} {
			wg.Go(func() { ask(h) })
		}
		wg.Wait()
	}
	gone()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}
