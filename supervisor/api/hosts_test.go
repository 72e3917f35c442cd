package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOnlyHosts(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	h := OnlyHosts(a.ReadOnly(), []string{"Health.example.com"})
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8646": 200, "[::1]:8646": 200, "[::1]": 200, "::1": 200, "192.0.2.7:80": 200,
		"localhost": 200, "LOCALHOST:8646": 200, "localhost.": 200, "healthd": 200, "healthd:80": 200, "": 200,
		"health.example.com": 200, "health.example.com:8646": 200,
		"evil.example.com": 421, "evil.example.com:8646": 421, "localhost.evil.example.com": 421, "xlocalhost": 421,
		"127.0.0.1.nip.io": 421, "a b": 421, "[evil]": 421, "127.0.0.1@evil.example.com": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/ready/web-1", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
