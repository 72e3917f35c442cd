package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"healthd/configs"
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
