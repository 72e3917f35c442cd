package dockertest_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

func TestContainersSurviveRestartAndCleanUpIsComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
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
	patience.Until(t, "the test server answers", func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}
