package containerd_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"go.uber.org/zap"

	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

func TestScenarios(t *testing.T) {
	scenarios.Run(t, scenarios.Rig{
		Shared: func(tb testing.TB) scenarios.Private { return operated{private.Engine(tb)} },
	})
}

func dial(endpoint string, log *zap.Logger) (scenarios.Engine, error) {
	return containerd.New(containerd.Config{Endpoint: endpoint, Log: log})
}

// operated is a private engine with what an operator does with nerdctl, which leaves its traces
// in labels.
type operated struct{ *containerdtest.Engine }

func (o operated) Image() string   { return containerdtest.Image }
func (o operated) Address() string { return o.Endpoint }

func (o operated) Connect(tb testing.TB, stateDir string) scenarios.Engine {
	return connect(tb, o.Engine, containerd.Config{StateDir: stateDir})
}

func (o operated) Create(tb testing.TB, c scenarios.Container) string {
	tb.Helper()
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if c.Healthcheck {
		labels["nerdctl/healthcheck"] = `{"Test":["CMD","true"]}`
	}
	if c.RestartPolicy != "" {
		labels["containerd.io/restart.policy"] = c.RestartPolicy
	}
	return o.Engine.Create(tb, containerdtest.RunOptions{
		Name: c.Name, Cmd: c.Cmd, Env: c.Env, Labels: labels, Network: c.Network, AutoRemove: c.AutoRemove,
		StopSignal: c.StopSignal, StopTimeout: c.StopTimeout, Memory: c.Memory, User: c.User,
	})
}

func (o operated) Run(tb testing.TB, c scenarios.Container) string {
	tb.Helper()
	id := o.Create(tb, c)
	o.StartTask(tb, "", id)
	if c.RestartPolicy != "" { // before that, the restart plugin would be faster than the start
		o.SetLabel(tb, "", id, "containerd.io/restart.status", "running")
	}
	return id
}

func (o operated) OperatorRestarts(tb testing.TB, id string) {
	tb.Helper()
	o.RestartByOperator(tb, id)
}

func (o operated) SetHealthy(tb testing.TB, id string, healthy bool) {
	tb.Helper()
	status := "unhealthy"
	if healthy {
		status = "healthy"
	}
	o.SetLabel(tb, "", id, "nerdctl/healthstate", fmt.Sprintf(`{"Status":%q,"FailingStreak":0}`, status))
}

func (o operated) DeleteTask(tb testing.TB, id string) {
	tb.Helper()
	if _, err := o.Task(tb, id).Delete(o.In(tb, ""), client.WithProcessKill); err != nil {
		tb.Error(err)
	}
}
