package docker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"healthd/runtime"
)

// A request that a proxy or the engine does not allow is named, in one line and without the proxy's page.
func TestRefusedRequests(t *testing.T) {
	const page = "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n"
	id := strings.Repeat("a", 64)
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
		do                      func(e *Engine, ctx context.Context) error
		path, want              string
	}{
		{"stop", "text/html", page, 403, func(e *Engine, ctx context.Context) error { return e.Stop(ctx, "web", 0) },
			"/containers/web/stop", "cannot stop container web: POST /containers/web/stop: 403 Forbidden (a socket proxy?)"},
		{"start by ID", "text/html", page, 403, func(e *Engine, ctx context.Context) error { return e.Start(ctx, id) },
			"/containers/" + id + "/start", "cannot start container aaaaaaaaaaaa: POST /containers/aaaaaaaaaaaa/start: 403 Forbidden (a socket proxy?)"},
		{"method", "text/plain", "method not allowed", 405, func(e *Engine, ctx context.Context) error { return e.Start(ctx, "web") },
			"/containers/web/start", "cannot start container web: POST /containers/web/start: 405 Method Not Allowed (a socket proxy?)"},
		{"without its password", "text/html", page, 401, func(e *Engine, ctx context.Context) error { return e.Start(ctx, "web") },
			"/containers/web/start", "cannot start container web: POST /containers/web/start: 401 Unauthorized (a socket proxy?)"},
		{"plugin", "application/json", `{"message":"authorization denied by plugin opa: no"}`, 403, func(e *Engine, ctx context.Context) error { return e.Stop(ctx, "web", 0) },
			"/containers/web/stop", "cannot stop container web: POST /containers/web/stop: 403 Forbidden: authorization denied by plugin opa: no"},
		{"list, by a request of healthd's own", "text/html", page, 403, func(e *Engine, ctx context.Context) error { _, err := e.List(ctx); return err },
			"/containers/json", "cannot list containers: GET /containers/json: 403 Forbidden (a socket proxy?)"},
		{"ping", "text/html", page, 403, func(e *Engine, ctx context.Context) error { return e.Ping(ctx) },
			"/_ping", "GET /_ping: 403 Forbidden (a socket proxy?)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Api-Version", "1.45")
				if strings.HasSuffix(r.URL.Path, tt.path) {
					w.Header().Set("Content-Type", tt.contentType)
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.body))
					return
				}
				_, _ = w.Write([]byte(`{"State":{"Running":true,"Status":"running"}}`))
			}))
			t.Cleanup(server.Close)
			e, err := New(Config{Endpoint: strings.Replace(server.URL, "http", "tcp", 1)})
			if err != nil {
				t.Fatal(err)
			}
			err = tt.do(e, t.Context())
			if err == nil || err.Error() != tt.want || !errors.Is(err, runtime.ErrRefused) {
				t.Errorf("got %v\nwant %s, as an ErrRefused", err, tt.want)
			}
		})
	}
}

// What is not allowed is known before it is needed, and to ask for it does nothing.
func TestRefusedIsKnownBefore(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		if path := strings.Split(r.URL.Path, "/"); len(path) == 5 && path[3] != "json" { // /v1.45/containers/ID/stop
			mu.Lock()
			defer mu.Unlock()
			ids[path[3]]++
			if path[4] == "stop" || path[4] == "logs" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"No such container: ` + path[3] + `"}`))
			return
		}
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	core, logged := observer.New(zap.WarnLevel)
	e, err := New(Config{Endpoint: strings.Replace(server.URL, "http", "tcp", 1), Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	const stop = "POST /containers/*/stop (healthd restarts nothing whose probes fail)"
	if got, want := e.Refused(t.Context()), []string{stop, "GET /containers/*/logs (flight records have no log)"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := e.RefusedCalls(); got != nil {
		t.Errorf("refused before any connection: %q", got)
	}
	for range 2 {
		if _, err := e.Subscribe(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.RefusedCalls(); !slices.Equal(got, []string{stop}) || logged.Len() != 1 {
		t.Errorf("after two connections %q is known, and was logged %d times", got, logged.Len())
	}
	mu.Lock()
	defer mu.Unlock()
	for id := range ids {
		if len(id) != 64 || len(ids) != 3 {
			t.Errorf("asked for %s, and not each time for another container that cannot exist: %v", id, ids)
		}
	}
}
