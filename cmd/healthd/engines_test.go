package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/supervisor"
)

// Calls for a container go to the runtime that its engine's client names.
func TestSecondRuntimeHasItsOwnName(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if strings.HasSuffix(r.URL.Path, "/json") {
			_, _ = w.Write([]byte(`{"Id":"c1","Name":"/web","Config":{"Image":"web:1"},"State":{"Status":"running","StartedAt":"2026-01-02T03:04:05Z"},
				"HostConfig":{"NetworkMode":"none","RestartPolicy":{"Name":"no"}},"NetworkSettings":{"Networks":{}}}`))
		}
	}))
	defer engine.Close()
	endpoint := "tcp://" + engine.Listener.Addr().String()
	engines, err := openEngines(&configs.Config{Runtimes: []configs.Runtime{
		{Name: "docker", Type: "docker", Endpoint: endpoint}, {Name: "docker-2", Type: "docker", Endpoint: endpoint},
	}}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer closeEngines(engines)
	for _, e := range engines {
		c, err := e.client.Inspect(context.Background(), "c1")
		if err != nil || c.Runtime != e.name {
			t.Errorf("a container of %s: %+v, %v", e.name, c, err)
		}
	}
}

// check tells of all that a socket proxy forbids, the daemon of what it needs to act. An engine that is not there tells
// nothing.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		if strings.HasSuffix(r.URL.Path, "/start") || strings.HasSuffix(r.URL.Path, "/top") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(proxy.Close)
	endpoint := "tcp://" + proxy.Listener.Addr().String()
	config := write(t, "healthd.toml", fmt.Sprintf("[[runtime]]\nendpoint = %q\n[[runtime]]\nendpoint = \"unix:///nowhere.sock\"\n", endpoint))
	const begin, start = "runtime docker, or a socket proxy before it, does not allow ", "POST /containers/*/start (healthd starts nothing that has ended)"
	got := inside("check", "--config", config)
	want := "warning: " + begin + start + ", POST /exec/*/start (no exec probes and hooks) and " +
		"GET /containers/*/top (flight records have no processes)\n"
	if got.code != 0 || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "does not allow") != 1 {
		t.Errorf("%d\n%s\nwant %s", got.code, got.stderr, want)
	}
	engines, err := openEngines(&configs.Config{Runtimes: []configs.Runtime{
		{Name: "docker", Type: "docker", Endpoint: endpoint}, {Name: "containerd", Type: "containerd", Endpoint: "/nowhere.sock"},
	}}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer closeEngines(engines)
	if got := refusedCalls(engines); got != nil {
		t.Errorf("before a connection: %q", got)
	}
	if _, err := engines[0].client.Subscribe(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := refusedCalls(engines); !slices.Equal(got, []string{begin + start}) {
		t.Errorf("after a connection: %q", got)
	}
	engines[0].rivals.observes.Store(true)
	if got := refusedCalls(engines); got != nil {
		t.Errorf("while healthd only observes: %q", got)
	}
}

func TestLostEngines(t *testing.T) {
	gone := errors.New("connection refused")
	up := supervisor.RuntimeView{Name: "docker", Up: true, Synced: true}
	lost := supervisor.RuntimeView{Name: "docker", Synced: true, Err: gone}
	never := supervisor.RuntimeView{Name: "containerd", Err: gone}
	const because = ": it keeps what it published, and restarts nothing there: connection refused"
	for name, tt := range map[string]struct {
		all  []supervisor.RuntimeView
		want []string
	}{
		"all are up":              {[]supervisor.RuntimeView{up}, nil},
		"one that was up is lost": {[]supervisor.RuntimeView{lost}, []string{"healthd cannot reach runtime docker" + because}},
		"the only one never was":  {[]supervisor.RuntimeView{never}, nil},
		"one of two never was": {[]supervisor.RuntimeView{never, up}, []string{"healthd has not reached runtime containerd since it began: its services have no DNS names, " +
			"/v1/discovery and published files wait for it: connection refused"}},
		"not connected yet": {[]supervisor.RuntimeView{{Name: "containerd"}, up}, nil},
	} {
		if got := lostEngines(tt.all); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
