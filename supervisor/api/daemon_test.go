package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"healthd/supervisor"
)

func TestDaemonWarnings(t *testing.T) {
	for want, warnings := range map[string]func() []string{
		`{"warnings":[]}`:          nil,
		`{"warnings":["one","b"]}`: func() []string { return []string{"one", "b"} },
	} {
		a := New(Config{Board: supervisor.NewBoard(nil), Warnings: warnings})
		w := controlRequest(t, a, http.MethodGet, "/v1/daemon")
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != want {
			t.Errorf("%d %s, want %s", w.Code, got, want)
		}
	}
	a, _, _ := newAPI()
	if w := get(t, a.ReadOnly(), "/v1/daemon"); w.Code != http.StatusOK {
		t.Errorf("to the network: %d", w.Code)
	}
	w := httptest.NewRecorder()
	a.Control().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/daemon", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
