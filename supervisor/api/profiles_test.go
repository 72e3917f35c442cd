package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestProfilesAreOnTheControlSocketOnly(t *testing.T) {
	a, _, _ := newAPI()
	for path, want := range map[string]string{
		"/debug/pprof/goroutine?debug=1":  "goroutine profile: total ",
		"/debug/pprof/heap?debug=1":       "heap profile: ",
		"/debug/pprof/trace?seconds=0.01": "go 1.",
	} {
		if w := controlRequest(t, a, http.MethodGet, path); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d %.40q", path, w.Code, w.Body)
		}
		if w := get(t, a.ReadOnly(), path); w.Code != http.StatusNotFound {
			t.Errorf("%s on the network: %d", path, w.Code)
		}
	}
	if w := controlRequest(t, a, http.MethodGet, "/debug/pprof/nonsense"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown profile: %d", w.Code)
	}
	if w := controlRequest(t, a, http.MethodPost, "/debug/pprof/heap"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", w.Code)
	}
	if w := controlRequest(t, a, http.MethodGet, "/debug/pprof/"); w.Code != http.StatusNotFound {
		t.Errorf("the list: %d", w.Code)
	}
}
