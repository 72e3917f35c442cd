package prober

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
	}{
		{"kubelet 1", 200, "ok body", Success, "", "ok body"},
		{"last success", 299, "fine", Success, "", "fine"},
		{"no content", 204, "", Success, "", ""},
		{"no Location, kubelet 30", 308, "", Success, Redirect, "Probe terminated redirects, Response body: "},
		{"no Location, kubelet 31", 308, "ok body", Success, Redirect, "Probe terminated redirects, Response body: ok body"},
		{"not modified", 304, "", Success, Redirect, "Probe terminated redirects, Response body: "},
		{"first failure", 400, "secret", Failure, Status, "HTTP probe failed with statuscode: 400"},
		{"kubelet 20", 500, "secret", Failure, Status, "HTTP probe failed with statuscode: 500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := webServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, tt.outcome, tt.cause)
				if r.Output != tt.output {
					t.Errorf("host %q: output is %q, want %q", host, r.Output, tt.output)
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

// seen is what a server got of a request.
func seen(t *testing.T, h *HTTPGet) string {
	t.Helper()
	heads := make(chan string, 1)
	port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
		heads <- readHeadOf(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	})
	h.Port = port
	wantResult(t, ask(t, Handler{HTTPGet: h}), Success, "")
	return strings.ReplaceAll(<-heads, fmt.Sprint(port), "PORT")
}

func TestHTTPRequestHeaders(t *testing.T) {
	const ua, accept, closing = "User-Agent: healthd/1.0", "Accept: */*", "Connection: close"
	for _, tt := range []struct {
		name    string
		headers []Header
		want    []string
	}{
		{"kubelet 2, 3, 10, 17, 57", nil, []string{accept, closing, ua}},
		{"kubelet 4", []Header{{"Accept-Encoding", "gzip"}}, []string{accept, "Accept-Encoding: gzip", closing, ua}},
		{"kubelet 5", []Header{{"Accept-Encoding", "foo"}}, []string{accept, "Accept-Encoding: foo", closing, ua}},
		{"kubelet 6", []Header{{"Accept-Encoding", ""}}, []string{accept, "Accept-Encoding: ", closing, ua}},
		{"kubelet 7", []Header{{"X-Muffins-Or-Cupcakes", "muffins"}}, []string{accept, closing, ua, "X-Muffins-Or-Cupcakes: muffins"}},
		{"kubelet 8", []Header{{"User-Agent", "foo/1.0"}}, []string{accept, closing, "User-Agent: foo/1.0"}},
		{"kubelet 9", []Header{{"User-Agent", ""}}, []string{accept, closing}},
		{"kubelet 11", []Header{{"User-Agent", "foo/1.0"}, {"Accept", "text/html"}}, []string{"Accept: text/html", closing, "User-Agent: foo/1.0"}},
		{"kubelet 12", []Header{{"User-Agent", "foo/1.0"}, {"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, "User-Agent: foo/1.0"}},
		{"kubelet 13", []Header{{"X-Muffins", "m"}, {"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, ua, "X-Muffins: m"}},
		{"kubelet 14, 58", []Header{{"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, ua}},
		{"kubelet 15", []Header{{"Accept", ""}}, []string{closing, ua}},
		{"kubelet 16", []Header{{"User-Agent", "foo/1.0"}, {"Accept", ""}}, []string{closing, "User-Agent: foo/1.0"}},
		{"kubelet 55", []Header{{"Connection", "close"}, {"Content-Type", "text/a"}, {"Accept-Ranges", "bytes"}}, []string{accept, "Accept-Ranges: bytes", closing, "Content-Type: text/a", ua}},
		{"kubelet 56", []Header{{"FOO-bAR", "x"}}, []string{accept, closing, "Foo-Bar: x", ua}},
		{"kubelet 59", []Header{{"accept", "text/a"}}, []string{"Accept: text/a", closing, ua}},
		{"kubelet 60", []Header{{"accept", "text/a"}, {"Accept", "text/b"}, {"pragma", "p"}, {"X-forwarded-for", "f"}}, []string{"Accept: text/a", "Accept: text/b", closing, "Pragma: p", ua, "X-Forwarded-For: f"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, host := range []string{"", "localhost"} {
				lines := strings.Split(strings.TrimSuffix(seen(t, &HTTPGet{Host: host, Headers: tt.headers}), "\r\n\r\n"), "\r\n")
				got := lines[2:]
				slices.Sort(got)
				want := slices.Clone(tt.want)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("host %q: got %q, want %q", host, got, want)
				}
			}
		})
	}
}

func TestHTTPRequestLine(t *testing.T) {
	for _, tt := range []struct {
		name, path, want string
		headers          []Header
	}{
		{"kubelet 51", "", "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n", nil},
		{"kubelet 52", "/path", "GET /path HTTP/1.1\r\n", nil},
		{"kubelet 53", "?foo", "GET /?foo HTTP/1.1\r\n", nil},
		{"kubelet 54", "/path?bar", "GET /path?bar HTTP/1.1\r\n", nil},
		{"kubelet 75", "path", "GET /path HTTP/1.1\r\n", nil},
		{"fragment", "/path#part", "GET /path HTTP/1.1\r\n", nil},
		{"no reference", "/%zz", "GET /%25zz HTTP/1.1\r\n", nil},
		{"a scheme", "foo:bar", "GET /foo:bar HTTP/1.1\r\n", nil},
		{"another host", "http://example.com/path", "GET /path HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n", nil},
		{"a password", "//me:secret@example.com/", "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n", nil},
		{"kubelet 18", "/", "GET / HTTP/1.1\r\nHost: muffins.cupcakes.org\r\n", []Header{{"host", "muffins.cupcakes.org"}}},
		{"two lines", "/a\r\nb: c", "GET /a%0D%0Ab:%20c HTTP/1.1\r\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := seen(t, &HTTPGet{Path: tt.path, Headers: tt.headers}); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want prefix %q", got, tt.want)
			}
		})
	}
}

func TestHTTPBody(t *testing.T) {
	for _, tt := range []struct {
		name       string
		size, want int
		chunked    bool
	}{
		{"kubelet 49", MaxOutput + 1, MaxOutput, false},
		{"kubelet 50", MaxOutput - 1, MaxOutput - 1, false},
		{"exactly", MaxOutput, MaxOutput, false},
		{"large", 1 << 20, MaxOutput, false},
		{"chunked", MaxOutput - 1, MaxOutput - 1, true},
		{"chunked and large", 1 << 20, MaxOutput, true},
		{"empty chunked", 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := webServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if !tt.chunked {
					w.Header().Set("Content-Length", fmt.Sprint(tt.size))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(make([]byte, tt.size))
			})
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, Success, "")
				if len(r.Output) != tt.want {
					t.Errorf("host %q: output has %d bytes, want %d", host, len(r.Output), tt.want)
				}
			}
		})
	}
}

func TestHTTPNoProxy(t *testing.T) { // kubelet 32
	proxied := make(chan struct{}, 9)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied <- struct{}{} }))
	defer proxy.Close()
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("no_proxy", "")
	port := says(t, "HTTP/1.1 500 Bad\r\n\r\n")
	for _, host := range []string{"", "localhost"} {
		wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}}), Failure, Status)
	}
	if len(proxied) > 0 {
		t.Error("the proxy was asked")
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
	waitGone(t, "net/http.(*Transport)", "net/http.(*persistConn)", "net/http.(*http2ClientConn)")
}

func TestHTTPSTrouble(t *testing.T) {
	plain := webServer(t, func(http.ResponseWriter, *http.Request) {})
	garbage := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) { _, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x28") })
	silent := rawServer(t, false, func(_ net.Conn, quit <-chan struct{}) { <-quit })
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: plain}}), Failure, Protocol)
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: garbage}}), Failure, TLS)
	wantResult(t, askBriefly(t, Handler{HTTPGet: &HTTPGet{Scheme: "https", Port: silent}}), Failure, Timeout)
	waitGone(t, "net/http.(*Transport)", "net/http.(*persistConn)")
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
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port}}), Success, "")
			}
			if n := timeWaits(t, port); n != 0 {
				t.Errorf("%d connections are in TIME_WAIT", n)
			}
		})
	}
}
