package containerd_test

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/supervisor"
)

var private containerdtest.Shared

// What cmd/healthd needs of an engine.
var _ interface {
	runtime.Source
	supervisor.Restarter
	prober.Engine
	io.Closer

	OnHost() bool
} = (*containerd.Engine)(nil)

func TestMain(m *testing.M) { os.Exit(private.Main(m)) }

func engine(t *testing.T) (*containerd.Engine, *containerdtest.Engine) {
	t.Helper()
	private := private.Engine(t)
	return connect(t, private, containerd.Config{}), private
}

// connect returns a client of the private engine, closed when the test ends.
func connect(tb testing.TB, private *containerdtest.Engine, conf containerd.Config) *containerd.Engine {
	tb.Helper()
	conf.Endpoint = private.Endpoint
	if conf.StateDir == "" {
		conf.StateDir = tb.TempDir()
	}
	e, err := containerd.New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
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

// waitUntilServing waits for the test server: as process 1 it ignores SIGTERM until it has
// installed a handler.
func waitUntilServing(t *testing.T, e *containerd.Engine, id string) {
	t.Helper()
	eventually(t, "the test server listens", func() bool {
		_, code, _, err := e.Exec(t.Context(), id, []string{"sh", "-c", "ifconfig lo up 127.0.0.1; wget -q -O /dev/null http://127.0.0.1:8080/healthz"}, time.Minute, 0, nil)
		return err == nil && code == 0
	})
}

func inspect(t *testing.T, e *containerd.Engine, id string) *runtime.Container {
	t.Helper()
	c, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func waitForState(t *testing.T, e *containerd.Engine, id string, state runtime.State) *runtime.Container {
	t.Helper()
	var c *runtime.Container
	eventually(t, "container "+id+" is "+string(state), func() bool { c = inspect(t, e, id); return c.State == state })
	return c
}
