package prober

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestHTTPStatus(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		outcome Outcome
		cause   Cause
		output  string
		kubelet string
	}{
		{"OK", 200, "ok body", Success, "", "ok body", "1"},
		{"last success", 299, "fine", Success, "", "fine", ""},
		{"no content", 204, "", Success, "", "", ""},
		{"redirect to nowhere", 308, "", Success, Redirect, "Probe terminated redirects, Response body: ", ""},
		{"redirect to nowhere with a body", 308, "ok body", Success, Redirect, "Probe terminated redirects, Response body: ok body", ""},
		{"not modified", 304, "", Success, Redirect, "Probe terminated redirects, Response body: ", ""},
		{"first failure", 400, "secret", Failure, Status, "status 400, wanted 200-399", ""},
		{"server error", 500, "secret", Failure, Status, "status 500, wanted 200-399", "20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			port := webServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, tt.outcome, tt.cause)
				want := tt.output
				if tt.outcome == Failure {
					want = fmt.Sprintf("GET http://%s:%d: %s", cmp.Or(host, "127.0.0.1"), port, want)
				}
				if r.Output != want {
					t.Errorf("host %q: output is %q, want %q", host, r.Output, want)
				}
				if r.Warning != (tt.cause == Redirect) {
					t.Errorf("host %q: warning is %v", host, r.Warning)
				}
				if r.Latency <= 0 {
					t.Errorf("host %q: latency is %v", host, r.Latency)
				}
			}
		})
	}
}

func TestHTTPBody(t *testing.T) {
	for _, tt := range []struct {
		name       string
		size, want int
		chunked    bool
		kubelet    string
	}{
		{"a byte too long", MaxOutput + 1, MaxOutput, false, "49"},
		{"a byte shorter", MaxOutput - 1, MaxOutput - 1, false, "50"},
		{"exactly", MaxOutput, MaxOutput, false, ""},
		{"large", 1 << 20, MaxOutput, false, ""},
		{"chunked", MaxOutput - 1, MaxOutput - 1, true, ""},
		{"chunked and large", 1 << 20, MaxOutput, true, ""},
		{"empty chunked", 0, 0, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			port := webServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if !tt.chunked {
					w.Header().Set("Content-Length", fmt.Sprint(tt.size))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(w, strings.Repeat("x", tt.size))
			})
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, Success, "")
				if r.Output != strings.Repeat("x", tt.want) {
					t.Errorf("host %q: output has %d bytes, want %d: %.9q", host, len(r.Output), tt.want, r.Output)
				}
			}
		})
	}
}

// TestHTTPNoProxy probes 0.0.0.0: it leads to this host, and net/http would use a proxy for
// it, unlike for a loopback address.
func TestHTTPNoProxy(t *testing.T) {
	covers(t, "32")
	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		t.Setenv(name, "")
	}
	plain := redirectServer(t, 302, "/fail")
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for _, h := range []*HTTPGet{
		{Host: "0.0.0.0", Port: plain, Path: "/fail"},
		{Host: "0.0.0.0", Port: plain, Path: "/"}, // the redirect goes through net/http
		{Host: "0.0.0.0", Port: portOf(t, secure.URL), Scheme: "https"},
	} {
		wantResult(t, ask(t, Handler{HTTPGet: h}), Failure, Status)
		wantError(t, runHook(t, LifecycleHandler{HTTPGet: h}).Err, "")
	}
	if n := proxied.Load(); n > 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
	// net/http reads the environment once, perhaps long before this test.
	if oneTransport(t.Context(), dialFromHost).Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

func TestHTTPHandlerDies(t *testing.T) {
	covers(t, "19")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(-1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	defer s.Close()
	for _, host := range []string{"", "localhost"} {
		wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: portOf(t, s.URL)}}), Failure, Reset)
	}
}

func TestHTTPS(t *testing.T) {
	protos := make(chan string, 1)
	names := make(chan string, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos <- r.Proto
		_, _ = io.WriteString(w, "safe "+r.UserAgent())
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- h.ServerName
		return nil, nil
	}}
	s.StartTLS()
	defer s.Close()
	port := portOf(t, s.URL)
	for host, name := range map[string]string{"": "", "localhost": "localhost"} {
		r := ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "HTTPS", Host: host, Port: port, Headers: []Header{{"Host", "example.com"}}}})
		wantResult(t, r, Success, "")
		if r.Output != "safe healthd/1.0" {
			t.Errorf("output is %q", r.Output)
		}
		if proto, sni := <-protos, <-names; proto != "HTTP/2.0" || sni != name {
			t.Errorf("protocol is %s, SNI is %q, want HTTP/2.0 and %q", proto, sni, name)
		}
	}
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)", "net/http.(*http2ClientConn)")
}

func TestHTTPSErrors(t *testing.T) {
	plain := webServer(t, func(http.ResponseWriter, *http.Request) {})
	garbage := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { _, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x28") })
	silent := rawServer(t, false, func(_ net.Conn, quit <-chan struct{}) { <-quit })
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: plain}}), Failure, Protocol)
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: garbage}}), Failure, TLS)
	wantBriefly(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: silent}}, Failure, Timeout, "")
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this host has no IPv6 loopback")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	r := ask(t, Handler{HTTPGet: &HTTPGet{Host: "::1", Port: portOf(t, s.URL)}})
	wantResult(t, r, Success, "")
	if r.Output != l.Addr().String() {
		t.Errorf("host is %q, want %q", r.Output, l.Addr())
	}
}

func TestHTTPLeavesNoTimeWait(t *testing.T) {
	for name, port := range map[string]int{
		"server closes": webServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		"server stays": rawServer(t, true, func(c net.Conn, quit <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			<-quit
		}),
		"chunks, server closes": rawServer(t, true, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		}),
		"chunks, server stays": rawServer(t, true, func(c net.Conn, quit <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
			<-quit
		}),
	} {
		t.Run(name, func(t *testing.T) {
			left := countTimeWaits(t, port)
			for range 20 {
				wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port}}), Success, "")
			}
			if n := left(); n != 0 {
				t.Errorf("%d connections are in TIME_WAIT", n)
			}
		})
	}
}
