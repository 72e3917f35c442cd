package harness

import (
	"cmp"
	"fmt"
	"syscall"
	"testing"
	"time"

	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest"
)

// Engine is a private engine, with what its operators do and what befalls it. Containers are
// named by ID or name.
type Engine interface {
	Name() string    // of its runtime
	Runtime() string // the [[runtime]] of a configuration

	Run(testing.TB, dockertest.RunOptions) (id string)
	Create(testing.TB, dockertest.RunOptions) (id string)
	Inspect(tb testing.TB, name string) enginetest.Container
	Exec(tb testing.TB, name string, argv ...string) (exitCode int)

	StopByOperator(tb testing.TB, name string)
	KillByOperator(tb testing.TB, name string, sig syscall.Signal)
	StartByOperator(tb testing.TB, name string)
	RestartByOperator(tb testing.TB, name string)
	Pause(tb testing.TB, name string)
	Unpause(tb testing.TB, name string)
	Rename(tb testing.TB, name, to string)
	Remove(tb testing.TB, name string)
	RemoveAll(tb testing.TB, names ...string)

	Stop(testing.TB)
	Up(testing.TB)
	Log() string // the end of what it has logged
}

// Nerdctl is a containerd whose containers are made as nerdctl does. Those without a network
// mode are on its bridge.
type Nerdctl struct{ *containerdtest.Engine }

func nerdctlOptions(o dockertest.RunOptions) containerdtest.RunOptions {
	return containerdtest.RunOptions{
		Name: o.Name, Cmd: o.Cmd, Env: o.Env, Labels: o.Labels, Network: cmp.Or(o.Network, containerdtest.Bridge),
		AutoRemove: o.AutoRemove, StopSignal: o.StopSignal, StopTimeout: o.StopTimeout,
	}
}

// Create makes a container as nerdctl create does.
func (n Nerdctl) Create(tb testing.TB, o dockertest.RunOptions) string {
	tb.Helper()
	return n.Engine.Create(tb, nerdctlOptions(o))
}

// Run is nerdctl run.
func (n Nerdctl) Run(tb testing.TB, o dockertest.RunOptions) string {
	tb.Helper()
	return n.Engine.Run(tb, nerdctlOptions(o))
}

// StartedAt asks the engine when a container's present run began.
func StartedAt(t *testing.T, e Engine, name string) time.Time {
	t.Helper()
	return e.Inspect(t, name).StartedAt
}

// Inside runs a command inside a container and waits for its success.
func Inside(t *testing.T, e Engine, name string, command ...string) {
	t.Helper()
	if code := e.Exec(t, name, command...); code != 0 {
		t.Fatalf("%v in %s: exit code %d", command, name, code)
	}
}

// Set changes the behaviour of the test server in a container, without the proxy.
func Set(t *testing.T, e Engine, id, how string) {
	t.Helper()
	Inside(t, e, id, "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?"+how)
}

// EndProcess kills a container's main process without the engine.
func (d *Daemon) EndProcess(e Engine, id string) {
	d.T.Helper()
	Crash(d.T, e, id)
	d.Eventually("see the process end", func() error { return Ended(d.T, e, id) })
}

// Crash is EndProcess for a container that the engine may not leave ended.
func Crash(t *testing.T, e Engine, id string) {
	t.Helper()
	if err := syscall.Kill(e.Inspect(t, id).Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Ended returns nil when the container does not run.
func Ended(t *testing.T, e Engine, name string) error {
	if e.Inspect(t, name).Running {
		return fmt.Errorf("%s still runs", name)
	}
	return nil
}

// FillEventHistory makes the engine drop its older events.
func FillEventHistory(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	const remembers = 256
	id := e.Create(t, dockertest.RunOptions{Name: "chatter"})
	for i := range remembers {
		if err := e.Client().ContainerRename(t.Context(), id, fmt.Sprintf("chatter-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
}
