package api

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"healthd/supervisor"
)

// The server state in a check by HAProxy is passed on for a known container, and not for an
// unknown name or from a stranger.
func TestHAProxyStateIsPassedOn(t *testing.T) {
	var got []string
	a := New(Config{
		Board:   supervisor.NewBoard([]supervisor.RuntimeView{synced("docker")}, readyContainer("web-1")),
		Checked: func(id, state string) { got = append(got, id+" "+state) }, ChecksFrom: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	})
	for _, path := range []string{"shop/web-1", "web-1", "other/web-1", "web-9"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/ready/"+path, nil)
		r.Header.Set("X-Haproxy-Server-State", "UP; name="+path)
		a.ReadOnly().ServeHTTP(httptest.NewRecorder(), r)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/ready/web-1", nil)
	a.ReadOnly().ServeHTTP(httptest.NewRecorder(), r)
	r.Header["X-Haproxy-Server-State"] = []string{"UP", "UP"} // which of them?
	a.ReadOnly().ServeHTTP(httptest.NewRecorder(), r)
	for _, stranger := range []string{"198.51.100.1:80", "[2001:db8::1]:80", "192.0.2.1", ""} {
		r := httptest.NewRequest(http.MethodGet, "/v1/ready/web-1", nil)
		r.Header.Set("X-Haproxy-Server-State", "UP; name=stranger")
		r.RemoteAddr = stranger
		a.ReadOnly().ServeHTTP(httptest.NewRecorder(), r)
	}
	id := readyContainer("web-1").Container.ID
	if want := []string{id + " UP; name=shop/web-1", id + " UP; name=web-1"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}
