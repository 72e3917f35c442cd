package docker_test

import (
	"cmp"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/versions"
	"go.uber.org/zap"

	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

func TestScenarios(t *testing.T) {
	scenarios.Run(t, scenarios.Rig{
		Shared:  func(tb testing.TB) scenarios.Private { return operated{private.Engine(tb)} },
		Mortal:  func(tb testing.TB) scenarios.Private { return operated{dockertest.Start(tb, "--live-restore=false")} },
		Release: release,
	})
}

// release returns what the rows call releases that cannot tell who stopped a container.
func release(tb testing.TB) string {
	tb.Helper()
	v, err := private.Engine(tb).Client().ServerVersion(tb.Context())
	must(tb, err)
	if dockertest.Podman() && versions.LessThan(v.Version, "4.7") {
		return "podman before 4.7"
	}
	return ""
}

func dial(endpoint string, log *zap.Logger) (scenarios.Engine, error) {
	return docker.New(docker.Config{Endpoint: endpoint, Log: log})
}

// operated is a private engine with what an operator does with the docker command.
type operated struct{ *dockertest.Engine }

func (o operated) Name() string    { return engineName() }
func (o operated) Image() string   { return imageName() }
func (o operated) Address() string { return o.Endpoint }

func (o operated) Connect(tb testing.TB, _ string) scenarios.Engine { return connect(tb, o.Engine) }

func (o operated) Run(tb testing.TB, c scenarios.Container) string {
	tb.Helper()
	return o.Engine.Run(tb, options(c))
}

func (o operated) Create(tb testing.TB, c scenarios.Container) string {
	tb.Helper()
	return o.Engine.Create(tb, options(c))
}

func options(c scenarios.Container) dockertest.RunOptions {
	o := dockertest.RunOptions{
		Name: c.Name, Cmd: c.Cmd, Env: c.Env, Labels: c.Labels, Network: cmp.Or(c.Network, "none"), RestartPolicy: c.RestartPolicy,
		AutoRemove: c.AutoRemove, StopSignal: c.StopSignal, StopTimeout: c.StopTimeout, Memory: c.Memory,
	}
	if c.User != 0 {
		o.User = fmt.Sprintf("%d:%d", c.User, c.User)
	}
	if c.Healthcheck {
		o.Health = &container.HealthConfig{
			Test: []string{"CMD-SHELL", "echo checked; test -e /tmp/ok"}, Interval: time.Second, Timeout: 10 * time.Second, Retries: 1,
		}
	}
	return o
}

func (o operated) OperatorStops(tb testing.TB, id string, signal syscall.Signal) {
	tb.Helper()
	o.KillByOperator(tb, id, signal)
}

func (o operated) OperatorRestarts(tb testing.TB, id string) {
	tb.Helper()
	o.RestartByOperator(tb, id)
}

func (o operated) SetHealthy(tb testing.TB, id string, healthy bool) {
	tb.Helper()
	argv := []string{"rm", "-f", "/tmp/ok"}
	if healthy {
		argv = []string{"touch", "/tmp/ok"}
	}
	_, code, _, err := connect(tb, o.Engine).Exec(tb.Context(), id, argv, time.Minute, 0, nil)
	if err != nil || code != 0 {
		tb.Fatal(code, err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
