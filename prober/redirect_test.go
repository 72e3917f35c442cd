package prober

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// redirectServer redirects / to location, and serves /new, /fail, /loop and others.
func redirectServer(t *testing.T, code int, location string) int {
	t.Helper()
	return webServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, location, code)
		case "/loop":
			http.Redirect(w, r, "/loop", code)
		case "/new":
			_, _ = io.WriteString(w, "ok body")
		case "/end":
			w.WriteHeader(http.StatusPermanentRedirect)
			_, _ = io.WriteString(w, "ok body")
		case "/emptyend":
			w.WriteHeader(http.StatusPermanentRedirect)
		case "/host":
			if r.Host != "example.com" {
				w.WriteHeader(http.StatusBadRequest)
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

// What failed after redirects is named. What a target has beside a path may be secret.
func TestTextAfterRedirects(t *testing.T) {
	port, closed := redirectServer(t, 302, "/fail?token=secret"), closedPort(t)
	gone := redirectServer(t, 302, fmt.Sprintf("http://user:secret@127.0.0.1:%d/login?token=secret", closed))
	long := redirectServer(t, 302, "/"+strings.Repeat("x", 4000))
	for from, want := range map[int]string{
		port: fmt.Sprintf("GET http://127.0.0.1:%d/, redirected to http://127.0.0.1:%[1]d/fail: status 500, wanted 200-399", port),
		gone: fmt.Sprintf("GET http://127.0.0.1:%d/, redirected to http://127.0.0.1:%d/login: dial tcp 127.0.0.1:%[2]d: connect: connection refused", gone, closed),
		long: fmt.Sprintf("GET http://127.0.0.1:%d/, redirected to http://127.0.0.1:%[1]d/%s…: status 500, wanted 200-399", long, strings.Repeat("x", maxQuote-len(fmt.Sprintf("http://127.0.0.1:%d/", long)))),
	} {
		if r := ask(t, Handler{HTTPGet: &HTTPGet{Port: from, Path: "/"}}); r.Outcome != Failure || r.Output != want {
			t.Errorf("%v %q, want %q", r.Outcome, r.Output, want)
		}
	}
}

func TestHTTPRedirects(t *testing.T) {
	other := redirectServer(t, 302, "")
	at := func(host, path string) string { return fmt.Sprintf("http://%s:%d%s", host, other, path) }
	for _, tt := range []struct {
		name     string
		anywhere bool // FollowNonLocalRedirects
		code     int
		location string
		outcome  Outcome
		cause    Cause
		kubelet  string
	}{
		{"301", false, 301, "/new", Success, "", "22"},
		{"301, target fails", false, 301, "/fail", Failure, Status, "23"},
		{"302", false, 302, "/new", Success, "", "24"},
		{"302, target fails", false, 302, "/fail", Failure, Status, "25"},
		{"303", false, 303, "/new", Success, "", ""},
		{"307", false, 307, "/new", Success, "", "26"},
		{"307, target fails", false, 307, "/fail", Failure, Status, "27"},
		{"308", false, 308, "/new", Success, "", "28"},
		{"308, target fails", false, 308, "/fail", Failure, Status, "29"},
		{"300 is final", false, 300, "/fail", Success, Redirect, ""},

		{"to the same host", false, 302, "/new", Success, "", "33"},
		{"to the same host, target fails", false, 302, "/fail", Failure, Status, "35"},
		{"to another port", false, 302, at("127.0.0.1", "/new"), Success, "", "37"},
		{"to another port, target fails", false, 302, at("127.0.0.1", "/fail"), Failure, Status, "39"},
		{"to another host, target fails", false, 302, at("0.0.0.0", "/fail"), Success, Redirect, "41"},
		{"to another name of the host", false, 302, at("localhost", "/new"), Success, Redirect, ""},
		{"to another scheme", false, 302, "ftp://127.0.0.1/", Failure, Protocol, ""},
		{"in a loop", false, 302, "/loop", Failure, Protocol, "43"},

		{"anywhere: to the same host", true, 302, "/new", Success, "", "34"},
		{"anywhere: to the same host, target fails", true, 302, "/fail", Failure, Status, "36"},
		{"anywhere: to another port", true, 302, at("127.0.0.1", "/new"), Success, "", "38"},
		{"anywhere: to another port, target fails", true, 302, at("127.0.0.1", "/fail"), Failure, Status, "40"},
		{"anywhere: to another host", true, 302, at("0.0.0.0", "/new"), Success, "", ""},
		{"anywhere: to another host, target fails", true, 302, at("0.0.0.0", "/fail"), Failure, Status, "42"},
		{"anywhere: to another name of the host", true, 302, at("localhost", "/new"), Success, "", ""},
		{"anywhere: in a loop", true, 302, "/loop", Failure, Protocol, "44"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			h := Handler{HTTPGet: &HTTPGet{Port: redirectServer(t, tt.code, tt.location), Path: "/"}}
			r := mustProbe(t, Config{FollowNonLocalRedirects: tt.anywhere}, h, loopback).Ask(t.Context(), longTimeout)
			wantResult(t, r, tt.outcome, tt.cause)
			if r.Warning != (tt.cause == Redirect) {
				t.Errorf("warning is %v", r.Warning)
			}
			if tt.location == "/loop" {
				wantOutput(t, r, "stopped after 10 redirects")
			}
		})
	}
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPRedirectLoop(t *testing.T) {
	for _, tt := range []struct{ name, path, output, kubelet string }{
		{"without a body", "/emptyend", "Probe terminated redirects, Response body: ", "30"},
		{"with a body", "/end", "Probe terminated redirects, Response body: ok body", "31"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			r := ask(t, Handler{HTTPGet: &HTTPGet{Port: redirectServer(t, 302, tt.path), Path: "/"}})
			wantResult(t, r, Success, Redirect)
			if !r.Warning || r.Output != tt.output {
				t.Errorf("warning is %v, output is %q, want %q", r.Warning, r.Output, tt.output)
			}
		})
	}
}

func TestHTTPRedirectKeepsHost(t *testing.T) {
	for _, tt := range []struct {
		name     string
		anywhere bool
		host     string
		outcome  Outcome
		cause    Cause
		kubelet  string
	}{
		{"right host", false, "example.com", Success, "", "45"},
		{"anywhere: right host", true, "example.com", Success, "", "46"},
		{"wrong host", false, "example.org", Failure, Status, "47"},
		{"anywhere: wrong host", true, "example.org", Failure, Status, "48"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			h := &HTTPGet{Port: redirectServer(t, 302, "/host"), Path: "/", Headers: []Header{{"Host", tt.host}}}
			r := mustProbe(t, Config{FollowNonLocalRedirects: tt.anywhere}, Handler{HTTPGet: h}, loopback).Ask(t.Context(), longTimeout)
			wantResult(t, r, tt.outcome, tt.cause)
		})
	}
}

func TestHTTPRedirectAsksOnce(t *testing.T) {
	var first atomic.Int32
	port := webServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			first.Add(1)
			http.Redirect(w, r, "/new", http.StatusFound)
		}
	})
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port}}), Success, "")
	if n := first.Load(); n != 1 {
		t.Errorf("the first request came %d times", n)
	}
}

// TestHTTPRedirectBody has redirects whose bodies net/http does not wait for.
func TestHTTPRedirectBody(t *testing.T) {
	const found = "HTTP/1.1 302 Found\r\nLocation: /new\r\n"
	for name, serve := range map[string]func(net.Conn, <-chan struct{}){
		"cut short":     sendThen(found+"Content-Length: 9\r\n\r\nfi", closeIt),
		"malformed":     sendThen(found+"Transfer-Encoding: chunked\r\n\r\nx\r\n", closeIt),
		"stalls":        sendThen(found+"Content-Length: 4000\r\n\r\nfi", hang),
		"without end":   sendThen(found+"\r\n", sendRepeatedly(strings.Repeat("x", 4096), time.Microsecond)),
		"endless chunk": sendThen(found+"Transfer-Encoding: chunked\r\n\r\n", sendRepeatedly("4\r\nfine\r\n", time.Microsecond)),
	} {
		t.Run(name, func(t *testing.T) {
			port := rawServer(t, false, func(c net.Conn, quit <-chan struct{}) {
				if strings.HasPrefix(readHeadOf(c), "GET /new ") {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nok body")
					return
				}
				serve(c, quit)
			})
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, Success, "")
				if r.Output != "ok body" {
					t.Errorf("host %q: output is %q", host, r.Output)
				}
			}
		})
	}
}

// The same server with the port of its scheme left out is no other one.
func TestHTTPRedirectToDefaultPort(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		keeps    bool
	}{
		{"http://10.0.0.1:80/", "http://10.0.0.1/login", true},
		{"https://10.0.0.1:443/", "https://10.0.0.1/login", true},
		{"http://[fd00::1]:80/", "http://[fd00::1]/login", true},
		{"http://10.0.0.1:8080/", "http://10.0.0.1/login", false},
		{"http://10.0.0.1:80/", "https://10.0.0.1/login", false},
		{"http://10.0.0.1:80/", "http://10.0.0.2/login", false},
	} {
		first, err1 := http.NewRequest(http.MethodGet, tt.from, nil)
		next, err2 := http.NewRequest(http.MethodGet, tt.to, nil)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		next.Header.Set("X-Token", "secret")
		if err := limitRedirects(next, []*http.Request{first}); err != nil || (next.Header.Get("X-Token") != "") != tt.keeps {
			t.Errorf("from %s to %s: the header is %q, error %v", tt.from, tt.to, next.Header.Get("X-Token"), err)
		}
	}
}

// A server that is redirected to gets the headers of the probe only if it is the one that was asked.
func TestHTTPRedirectKeepsSecrets(t *testing.T) {
	var got atomic.Value
	look := func(w http.ResponseWriter, r *http.Request) { got.Store(r.Header.Get("X-Token")) }
	other := webServer(t, look)
	for _, anywhere := range []bool{false, true} {
		for location, want := range map[string]string{
			"/same": "secret", fmt.Sprintf("http://127.0.0.1:%d/other", other): "",
		} {
			got.Store("nobody asked")
			port := webServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, location, http.StatusFound)
					return
				}
				look(w, r)
			})
			h := Handler{HTTPGet: &HTTPGet{Port: port, Path: "/", Headers: []Header{{"X-Token", "secret"}}}}
			wantResult(t, mustProbe(t, Config{FollowNonLocalRedirects: anywhere}, h, loopback).Ask(t.Context(), longTimeout), Success, "")
			if got.Load() != want {
				t.Errorf("%s, anywhere %v: got %q, want %q", location, anywhere, got.Load(), want)
			}
		}
	}
}
