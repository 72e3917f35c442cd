package prober

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// recordedHookRequest returns a hook's request as a server that answers 500 received it.
func recordedHookRequest(t *testing.T, h HTTPGet, secure bool) string {
	t.Helper()
	heads := make(chan string, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads <- fmt.Sprintf("%s %s Host=%s UA=%s Custom=%q TLS=%v",
			r.Method, r.RequestURI, r.Host, r.UserAgent(), r.Header.Values("Custom"), r.TLS != nil)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	defer s.Close()
	h.Port = portOf(t, s.URL)
	r := runHook(t, LifecycleHandler{HTTPGet: &h})
	wantError(t, r.Err, "")
	if r.HTTPFallback || r.NotAsked {
		t.Errorf("got %+v", r)
	}
	return strings.ReplaceAll(<-heads, fmt.Sprint(h.Port), "PORT")
}

func TestHTTPHookRequest(t *testing.T) {
	const ua = " UA=healthd-lifecycle/1.2"
	for _, tt := range []struct {
		name string
		h    HTTPGet
		want string
	}{
		{"host, port and path", HTTPGet{Host: "localhost", Path: "/foo"}, "GET /foo Host=localhost:PORT" + ua + " Custom=[] TLS=false"},
		{"no host", HTTPGet{Path: "/foo"}, "GET /foo Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"no path", HTTPGet{}, "GET / Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"path without slash", HTTPGet{Path: "foo"}, "GET /foo Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"https", HTTPGet{Scheme: "HTTPS", Path: "/foo"}, "GET /foo Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=true"},
		{"query", HTTPGet{Path: "/foo?a=b&c"}, "GET /foo?a=b&c Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"query without path", HTTPGet{Path: "?a=b"}, "GET /?a=b Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"fragment", HTTPGet{Path: "/foo#frag"}, "GET /foo Host=127.0.0.1:PORT" + ua + " Custom=[] TLS=false"},
		{"headers", HTTPGet{Headers: []Header{{"custom", "a"}, {"Custom", "b"}}}, "GET / Host=127.0.0.1:PORT" + ua + ` Custom=["a" "b"] TLS=false`},
		{"Host header", HTTPGet{Headers: []Header{{"Host", "muffins.cupcakes.org"}}}, "GET / Host=muffins.cupcakes.org" + ua + " Custom=[] TLS=false"},
		{"own User-Agent", HTTPGet{Headers: []Header{{"User-Agent", "foo/1.0"}}}, "GET / Host=127.0.0.1:PORT UA=foo/1.0 Custom=[] TLS=false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, "243")
			if got := recordedHookRequest(t, tt.h, tt.h.Scheme != ""); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestLifecycleAgent(t *testing.T) {
	for userAgent, want := range map[string]string{
		"":                      "healthd-lifecycle",
		"healthd":               "healthd-lifecycle",
		"healthd/1.2":           "healthd-lifecycle/1.2",
		"healthd/1.2 (a/b) c/d": "healthd-lifecycle/1.2 (a/b) c/d",
		"healthd (a/b)":         "healthd-lifecycle (a/b)",
	} {
		agents := make(chan string, 1)
		port := webServer(t, func(_ http.ResponseWriter, r *http.Request) { agents <- r.UserAgent() })
		h := LifecycleHandler{HTTPGet: &HTTPGet{Port: port}}
		wantError(t, mustHook(t, Config{UserAgent: userAgent}, h, loopback).Run(t.Context()).Err, "")
		if got := <-agents; got != want {
			t.Errorf("%q became %q, want %q", userAgent, got, want)
		}
	}
}

func TestHTTPHookTakesAnyReply(t *testing.T) {
	for _, status := range []int{200, 204, 304, 308, 400, 404, 500, 503, 999} {
		port := webServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: port}}); r != (HookResult{}) {
			t.Errorf("status %d: got %+v", status, r)
		}
	}
}

func TestHTTPHookFollowsRedirectsAsProbesDo(t *testing.T) {
	asked := make(chan string, 9)
	other := webServer(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	for _, tt := range []struct {
		name, location string
		anywhere       bool
		want           bool
	}{
		{"same host", fmt.Sprintf("http://127.0.0.1:%d/new", other), false, true},
		{"other host", fmt.Sprintf("http://localhost:%d/new", other), false, false},
		{"other host, allowed", fmt.Sprintf("http://localhost:%d/new", other), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := LifecycleHandler{HTTPGet: &HTTPGet{Port: redirectServer(t, 302, tt.location), Path: "/"}}
			r := mustHook(t, Config{FollowNonLocalRedirects: tt.anywhere}, h, loopback).Run(t.Context())
			if r != (HookResult{}) || len(asked) > 0 != tt.want {
				t.Errorf("got %+v, asked %d times", r, len(asked))
			}
			if len(asked) > 0 {
				<-asked
			}
		})
	}
	loop := redirectServer(t, 302, "/loop")
	err := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: loop, Path: "/"}}).Err
	wantError(t, err, fmt.Sprintf(`cannot get "http://127.0.0.1:%d/": stopped after 10 redirects`, loop))
}

// In TestHTTPHookFailures, the servers' replies contain a secret that no error may show.
func TestHTTPHookFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		serve   func(net.Conn, <-chan struct{})
		want    string
		kubelet string
	}{
		{"server closes", func(net.Conn, <-chan struct{}) {}, "connection closed before the reply was complete", "244"},
		{"no HTTP", sendThen("secret\r\n\r\n", hang), "the reply cannot be understood", "244"},
		{"bad header that looks like an error of TLS", sendThen("HTTP/1.1 200 OK\r\n tls: secret\r\n\r\n", hang), "the reply cannot be understood", ""},
		{"redirect to nowhere", sendThen("HTTP/1.1 302 Found\r\nLocation: :secret\r\nContent-Length: 0\r\n\r\n", hang), "the reply cannot be understood", ""},
		{"redirect to another protocol", sendThen("HTTP/1.1 302 Found\r\nLocation: secret://127.0.0.1\r\nContent-Length: 0\r\n\r\n", hang), "the reply cannot be understood", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			port := rawServer(t, true, tt.serve)
			r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: port, Path: "//me:secret@x/y", Headers: []Header{{"Cookie", "secret"}}}})
			wantError(t, r.Err, fmt.Sprintf(`cannot get "http://me:xxxxx@127.0.0.1:%d/y": %s`, port, tt.want))
			if r.NotAsked || r.HTTPFallback {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		covers(t, "244")
		port := closedPort(t)
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: port}})
		wantError(t, r.Err, fmt.Sprintf(`cannot get "http://127.0.0.1:%d": dial tcp 127.0.0.1:%d: connect: connection refused`, port, port))
	})
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPHookDeadline(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(net.Conn, <-chan struct{})
		want  string
	}{
		{"no reply", hang, "no reply: context canceled"},
		{"body that does not end", sendThen("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfi", hang), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan struct{})
			port := rawServer(t, true, func(c net.Conn, quit <-chan struct{}) {
				close(asked)
				tt.serve(c, quit)
			})
			hook := mustHook(t, Config{}, LifecycleHandler{HTTPGet: &HTTPGet{Port: port}}, loopback)
			ctx, cancel := context.WithCancel(t.Context())
			results := make(chan HookResult)
			go func() { results <- hook.Run(ctx) }()
			<-asked
			if tt.want == "" {
				waitForGoroutine(t, "prober.(*httpHook).send", "io.Copy")
			}
			cancel()
			want := tt.want
			if want != "" {
				want = fmt.Sprintf(`cannot get "http://127.0.0.1:%d": %s`, port, want)
			}
			wantError(t, (<-results).Err, want)
			if r := hook.Run(ctx); r.Err == nil {
				t.Error("ran with a context that had ended")
			}
		})
	}
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPSHookFallsBack(t *testing.T) {
	t.Run("server of plain HTTP", func(t *testing.T) {
		covers(t, "244")
		requests := make(chan *http.Request, 9)
		port := webServer(t, func(_ http.ResponseWriter, r *http.Request) { requests <- r })
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{
			Scheme: "https", Port: port, Path: "//me:secret@x/y?z", Headers: []Header{{"Authorization", "secret"}, {"Custom", "kept"}, {"Host", "example.com"}},
		}})
		if r != (HookResult{HTTPFallback: true}) || len(requests) != 1 {
			t.Fatalf("got %+v after %d requests", r, len(requests))
		}
		got := <-requests
		if got.RequestURI != "/y?z" || got.Host != "example.com" || got.Header.Get("Custom") != "kept" || got.UserAgent() != "healthd-lifecycle/1.2" {
			t.Errorf("asked again for %s of %s with %v", got.RequestURI, got.Host, got.Header)
		}
		if _, ok := got.Header["Authorization"]; ok {
			t.Errorf("credentials were sent in the clear: %v", got.Header)
		}
	})
	t.Run("credentials of the path alone", func(t *testing.T) {
		requests := make(chan *http.Request, 9)
		port := webServer(t, func(_ http.ResponseWriter, r *http.Request) { requests <- r })
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: port, Path: "//me:secret@x/y"}})
		if r != (HookResult{HTTPFallback: true}) {
			t.Fatalf("got %+v", r)
		}
		if got := (<-requests).Header.Get("Authorization"); got != "" {
			t.Errorf("credentials were sent in the clear: %q", got)
		}
	})
	t.Run("server that then is gone", func(t *testing.T) {
		port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
			_, _ = c.Read(make([]byte, 1)) // of a handshake, or of a request
			_, _ = io.WriteString(c, "HTTP/1.0 ")
		})
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: port}})
		if !r.HTTPFallback || r.Err == nil || !strings.HasPrefix(r.Err.Error(),
			fmt.Sprintf(`cannot get "https://127.0.0.1:%d": http: server gave HTTP response to HTTPS client; cannot get "http://127.0.0.1:%d": `, port, port)) {
			t.Errorf("got %+v", r)
		}
	})
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPSHookDoesNotFallBack(t *testing.T) {
	t.Run("other TLS errors", func(t *testing.T) {
		covers(t, "244")
		var connections atomic.Int32
		port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
			connections.Add(1)
			_, _ = io.WriteString(c, "\x15\x03\x01\x00\x02\x02\x28") // alert: handshake failure
		})
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: port}})
		wantError(t, r.Err, fmt.Sprintf(`cannot get "https://127.0.0.1:%d": remote error: tls: handshake failure`, port))
		if n := connections.Load(); n != 1 || r.HTTPFallback {
			t.Errorf("got %+v after %d connections", r, n)
		}
	})
	t.Run("redirect to a server of plain HTTP", func(t *testing.T) {
		plain := webServer(t, func(http.ResponseWriter, *http.Request) { t.Error("was asked in the clear") })
		var asked atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.Redirect(w, r, fmt.Sprintf("https://127.0.0.1:%d/", plain), http.StatusFound)
		}))
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		s.StartTLS()
		defer s.Close()
		port := portOf(t, s.URL)
		r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "https", Port: port}})
		wantError(t, r.Err, fmt.Sprintf(`cannot get "https://127.0.0.1:%d": http: server gave HTTP response to HTTPS client`, port))
		if n := asked.Load(); n != 1 || r.HTTPFallback {
			t.Errorf("got %+v after %d requests", r, n)
		}
	})
}
