package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestReady(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"), unreadyContainer("web-2"), drainingContainer("web-3"), backingOffContainer("web-4"), invalidContainer("web-5"), readyContainer("abc-6"))
	url := serveTCP(t, a.ReadOnly())
	for _, tt := range []struct {
		path   string
		status int
		body   string
	}{
		{"web-1", 200, "ready\n"},
		{"shop/web-1", 200, "ready\n"},
		{"other/web-1", 503, "not ready: OtherService\n"},
		{"web-2", 503, "not ready: ReadinessFailed\n"},
		{"web-3", 404, "draining\n"},
		{"shop/web-3", 404, "draining\n"},
		{"web-4", 503, "not ready: NotRunning\n"},
		{"web-5", 503, "not ready: Invalid\n"},
		{"web-9", 503, "not ready: UnknownContainer\n"},
		{"shop/web-9", 503, "not ready: UnknownContainer\n"},
		{"/web-1", 404, ""},
		{"a%2Fb%20%0A", 503, "not ready: UnknownContainer\n"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodOptions, http.MethodHead} {
			answer, body := ask(t, http.DefaultClient, method, url+"/v1/ready/"+tt.path)
			if answer.StatusCode != tt.status {
				t.Errorf("%s %s: status %d, want %d", method, tt.path, answer.StatusCode, tt.status)
			}
			if method != http.MethodHead && tt.body != "" && body != tt.body {
				t.Errorf("%s %s: %q, want %q", method, tt.path, body, tt.body)
			}
			if got := answer.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s %s: nosniff is missing: %q", method, tt.path, got)
			}
		}
	}
}

func TestReadyByIDPrefix(t *testing.T) {
	v := readyContainer("web-1")
	v.Container.ID = "0123456789abcdef"
	a, _, _ := newAPI(v)
	w := httptest.NewRecorder()
	a.ReadOnly().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/ready/012345", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
}

// discard is a ResponseWriter that drops the answer.
type discard http.Header

func (d discard) Header() http.Header               { return http.Header(d) }
func (d discard) Write(p []byte) (int, error)       { return len(p), nil }
func (d discard) WriteString(s string) (int, error) { return len(s), nil }
func (d discard) WriteHeader(int)                   {}

func TestReadyAllocatesLittle(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"), unreadyContainer("web-2"))
	h := a.ReadOnly()
	for _, name := range []string{"shop/web-1", "web-2"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/ready/"+name, nil)
		w := discard{}
		if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n > 1 {
			t.Errorf("%s: %v allocations, want at most 1", name, n)
		}
	}
}

func BenchmarkReady(b *testing.B) {
	a, _, _ := newAPI(readyContainer("web-1"))
	h, w := a.ReadOnly(), discard{}
	r := httptest.NewRequest(http.MethodGet, "/v1/ready/shop/web-1", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
