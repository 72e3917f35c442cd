package dockertest_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

func TestContainersSurviveRestartAndCleanUpIsComplete(t *testing.T) {
	var dir string
	t.Run("use", func(t *testing.T) {
		began := time.Now()
		e := dockertest.Start(t)
		t.Logf("up after %v", time.Since(began))
		dir = strings.TrimSuffix(strings.TrimPrefix(e.Endpoint, "unix://"), "/d.sock")
		id := e.Run(t, dockertest.RunOptions{Name: "web"})
		before, err := e.Client().ContainerInspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		waitForAnswer(t, "http://"+net.JoinHostPort(before.NetworkSettings.Networks[e.Bridge].IPAddress, "8080")+"/healthz")
		for name, down := range map[string]func(testing.TB){"kill": e.Kill, "stop": e.Stop} {
			down(t)
			e.Up(t)
			after, err := e.Client().ContainerInspect(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if !after.State.Running || after.State.StartedAt != before.State.StartedAt {
				t.Errorf("after %s: got %+v, want the same run", name, after.State)
			}
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func waitForAnswer(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
