package docker_test

import (
	"os"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

var private dockertest.Shared

var _ prober.Engine = (*docker.Engine)(nil)

func TestMain(m *testing.M) {
	if scenarios.ActBlind(dial) {
		return
	}
	os.Exit(private.Main(m))
}

func engine(t *testing.T) (*docker.Engine, *dockertest.Engine) {
	t.Helper()
	onlyInRingTwo(t)
	private := private.Engine(t)
	return connect(t, private), private
}

// onlyInRingTwo skips a test that has a real engine, but is not in the spine of scenarios.
func onlyInRingTwo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
}

func connect(tb testing.TB, private *dockertest.Engine) *docker.Engine {
	tb.Helper()
	e, err := docker.New(docker.Config{Endpoint: private.Endpoint, Name: engineName()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

func engineName() string {
	if dockertest.Podman() {
		return "podman"
	}
	return "docker"
}

// imageName is the test image's name as containers show it.
func imageName() string {
	if dockertest.Podman() {
		return "docker.io/library/" + dockertest.Image
	}
	return dockertest.Image
}

// waitUntilServing waits for the test server: as process 1 it ignores SIGTERM until it has
// installed a handler.
func waitUntilServing(t *testing.T, e *docker.Engine, id string) {
	t.Helper()
	scenarios.Eventually(t, "the test server listens", func() bool {
		_, code, _, err := e.Exec(t.Context(), id, []string{"wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthz"}, time.Minute, 0, nil)
		return err == nil && code == 0
	})
}
