package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/docker"
)

// served returns healthd's own client of an engine.
func served(t *testing.T, c Config) (*Engine, *docker.Engine) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "e.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e := New(c)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx, ln) }()
	client, err := docker.New(docker.Config{Endpoint: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if stop(); <-ended != nil || client.Close() != nil {
			t.Error("it has not ended well")
		}
	})
	return e, client
}

// What healthd reads of the engine is what it would read of Docker.
func TestContainersAreAsDockersAre(t *testing.T) {
	_, client := served(t, Config{Containers: 20, Own: 5, Groups: 4})
	all, err := client.List(t.Context())
	if err != nil || len(all) != 20 {
		t.Fatalf("%d containers, %v", len(all), err)
	}
	for _, s := range all {
		c, err := client.Inspect(t.Context(), s.ID)
		if err != nil || c.State != runtime.Running || c.Address != "127.0.0.1" || c.Name != s.Name || c.Fingerprint != s.Fingerprint {
			t.Fatalf("%+v, %v: listed as %+v", c, err, s)
		}
		if _, own := c.Labels["healthd.ports.http"]; own != slices.Contains([]string{"bench-0", "bench-1", "bench-2", "bench-3", "bench-4"}, c.Name) {
			t.Errorf("%s has ports of its own: %v", c.Name, own)
		}
	}
}

func TestStopsAndStartsAreTold(t *testing.T) {
	e, client := served(t, Config{Containers: 1})
	stream, err := client.Subscribe(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := e.containers[0].id
	if err := client.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, want := range []runtime.Action{runtime.ActionKill, runtime.ActionDie, runtime.ActionStop, runtime.ActionStart} {
		if ev, err := stream.Next(); err != nil || ev.Action != want || ev.ID != id {
			t.Fatalf("got %+v, %v, want %s", ev, err, want)
		}
	}
}

func TestCommandsEnd(t *testing.T) {
	e, client := served(t, Config{Containers: 1, ExecTime: 20 * time.Millisecond})
	_, code, timedOut, err := client.Exec(t.Context(), e.containers[0].id, []string{"true"}, time.Minute, 100, nil)
	if err != nil || code != 0 || timedOut {
		t.Errorf("code %d, timed out: %v, %v", code, timedOut, err)
	}
}

func TestRemovalOfARunningContainerIsAKill(t *testing.T) {
	e, client := served(t, Config{Containers: 1})
	stream, err := client.Subscribe(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := e.containers[0].id
	remove := func(query string) int {
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/containers/"+id+query, nil))
		return w.Code
	}
	if first, second := remove(""), remove("?force=1"); first != http.StatusConflict || second != http.StatusNoContent {
		t.Errorf("without force it answers %d, with it %d", first, second)
	}
	for _, want := range []runtime.Action{runtime.ActionKill, runtime.ActionDie, runtime.ActionDestroy} {
		if ev, err := stream.Next(); err != nil || ev.Action != want || ev.ID != id {
			t.Fatalf("got %+v, %v, want %s", ev, err, want)
		}
	}
}

func TestActsAreTheSupervisors(t *testing.T) {
	e, client := served(t, Config{Containers: 1})
	i := e.containers[0]
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set(ByMeasurement, "yes")
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w
	}
	ask(http.MethodPost, "/containers/"+i.id+"/stop")
	if err := errors.Join(client.Stop(t.Context(), i.id, time.Second), client.Start(t.Context(), i.id)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} { // the stop changed nothing; once told, it is told no more
		var acts []Act
		if err := json.Unmarshal(ask(http.MethodGet, "/bench/acts").Body.Bytes(), &acts); err != nil || len(acts) != want {
			t.Fatalf("got %+v, %v, want %d", acts, err, want)
		}
		if want == 1 && (acts[0].Kind != Start || acts[0].ID != i.id || acts[0].Name != i.name) {
			t.Errorf("got %+v", acts[0])
		}
	}
}
