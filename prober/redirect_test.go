package prober

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// redirecting serves /to?CODE to location, and /new, /fail, /loop and the like.
func redirecting(t *testing.T, code int, location string) int {
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
		case "/host":
			if r.Host != "example.com" {
				w.WriteHeader(http.StatusBadRequest)
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

func TestHTTPRedirects(t *testing.T) {
	other := redirecting(t, 302, "")
	for _, tt := range []struct {
		name     string
		code     int
		location string
		outcome  Outcome
		cause    Cause
	}{
		{"kubelet 22", 301, "/new", Success, ""},
		{"kubelet 23", 301, "/fail", Failure, Status},
		{"kubelet 24, 33", 302, "/new", Success, ""},
		{"kubelet 25, 35", 302, "/fail", Failure, Status},
		{"see other", 303, "/new", Success, ""},
		{"kubelet 26", 307, "/new", Success, ""},
		{"kubelet 27", 307, "/fail", Failure, Status},
		{"kubelet 28", 308, "/new", Success, ""},
		{"kubelet 29", 308, "/fail", Failure, Status},
		{"kubelet 31", 308, "/end", Success, Redirect},
		{"kubelet 37", 302, fmt.Sprintf("http://127.0.0.1:%d/new", other), Success, ""},
		{"kubelet 39", 302, fmt.Sprintf("http://127.0.0.1:%d/fail", other), Failure, Status},
		{"kubelet 41", 302, "http://0.0.0.0/fail", Success, Redirect},
		{"other name of the same host", 302, fmt.Sprintf("http://localhost:%d/new", other), Success, Redirect},
		{"kubelet 43", 302, "/loop", Failure, Protocol},
		{"other scheme", 302, "ftp://127.0.0.1/", Failure, Protocol},
		{"300 is final", 300, "/fail", Success, Redirect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ask(t, Handler{HTTPGet: &HTTPGet{Port: redirecting(t, tt.code, tt.location), Path: "/"}})
			wantResult(t, r, tt.outcome, tt.cause)
			if tt.cause == Redirect {
				wantOutput(t, r, "Probe terminated redirects, Response body: ")
			}
		})
	}
	waitGone(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPRedirectKeepsHost(t *testing.T) {
	port := redirecting(t, 302, "/host")
	h := &HTTPGet{Port: port, Path: "/", Headers: []Header{{"Host", "example.com"}}}
	wantResult(t, ask(t, Handler{HTTPGet: h}), Success, "") // kubelet 45
	h.Headers[0].Value = "example.org"
	wantResult(t, ask(t, Handler{HTTPGet: h}), Failure, Status) // kubelet 47
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
