package docker_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
)

var private dockertest.Shared

var _ prober.Engine = (*docker.Engine)(nil)

func TestMain(m *testing.M) {
	if endpoint, id, ok := strings.Cut(os.Getenv(blindRole), " "); ok {
		if err := probeBlindly(endpoint, id); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(private.Main(m))
}

func engine(t *testing.T) (*docker.Engine, *dockertest.Engine) {
	t.Helper()
	private := private.Engine(t)
	return connect(t, private), private
}

func connect(t *testing.T, private *dockertest.Engine) *docker.Engine {
	t.Helper()
	e, err := docker.New(docker.Config{Endpoint: private.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still waiting that %s", what)
		}
	}
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// waitUntilServing waits for the test server: as process 1 it ignores SIGTERM until it has
// installed a handler.
func waitUntilServing(t *testing.T, e *docker.Engine, id string) {
	t.Helper()
	eventually(t, "the test server listens", func() bool {
		_, code, _, err := e.Exec(t.Context(), id, []string{"wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthz"}, time.Minute, 0, nil)
		return err == nil && code == 0
	})
}
