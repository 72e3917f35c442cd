package containerd_test

import (
	"io"
	"os"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
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

func TestMain(m *testing.M) {
	if scenarios.ActBlind(dial) {
		return
	}
	os.Exit(private.Main(m))
}

func engine(t *testing.T) (*containerd.Engine, *containerdtest.Engine) {
	t.Helper()
	onlyInRingTwo(t)
	private := private.Engine(t)
	return connect(t, private, containerd.Config{}), private
}

// onlyInRingTwo skips a test that has a real engine, but is not in the spine of scenarios.
func onlyInRingTwo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
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
	scenarios.Eventually(t, "container "+id+" is "+string(state), func() bool { c = inspect(t, e, id); return c.State == state })
	return c
}
