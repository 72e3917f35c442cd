package dockertest

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/patience"
	"healthd/runtime/enginetest"
)

// What operators do with the docker command. Containers are named by ID or name.

// Name is the name of such a runtime.
func (e *Engine) Name() string { return "docker" }

// Runtime returns the [[runtime]] of a configuration for the engine.
func (e *Engine) Runtime() string {
	return fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = %q\n", e.Endpoint)
}

// StopByOperator is docker stop.
func (e *Engine) StopByOperator(tb testing.TB, name string) {
	tb.Helper()
	must(tb, "stop", name, e.client.ContainerStop(tb.Context(), name, container.StopOptions{}))
}

// KillByOperator is docker kill.
func (e *Engine) KillByOperator(tb testing.TB, name string, sig syscall.Signal) {
	tb.Helper()
	must(tb, "kill", name, e.client.ContainerKill(tb.Context(), name, strconv.Itoa(int(sig))))
}

// StartByOperator is docker start.
func (e *Engine) StartByOperator(tb testing.TB, name string) {
	tb.Helper()
	must(tb, "start", name, e.client.ContainerStart(tb.Context(), name, container.StartOptions{}))
}

// RestartByOperator is docker restart --time 0.
func (e *Engine) RestartByOperator(tb testing.TB, name string) {
	tb.Helper()
	zero := 0
	must(tb, "restart", name, e.client.ContainerRestart(tb.Context(), name, container.StopOptions{Timeout: &zero}))
}

// Pause is docker pause.
func (e *Engine) Pause(tb testing.TB, name string) {
	tb.Helper()
	enginetest.Pause(tb, name, func() error { return e.client.ContainerPause(tb.Context(), name) })
}

// Unpause is docker unpause.
func (e *Engine) Unpause(tb testing.TB, name string) {
	tb.Helper()
	must(tb, "unpause", name, e.client.ContainerUnpause(tb.Context(), name))
}

// Rename is docker rename.
func (e *Engine) Rename(tb testing.TB, name, to string) {
	tb.Helper()
	must(tb, "rename", name, e.client.ContainerRename(tb.Context(), name, to))
}

// Inspect returns what docker inspect shows.
func (e *Engine) Inspect(tb testing.TB, name string) enginetest.Container {
	tb.Helper()
	c, err := e.client.ContainerInspect(context.WithoutCancel(tb.Context()), name)
	must(tb, "inspect", name, err)
	started, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	must(tb, "read the start of", name, err)
	finished, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	must(tb, "read the end of", name, err)
	return enginetest.Container{Running: c.State.Running, Pid: c.State.Pid, StartedAt: started, FinishedAt: finished}
}

// Exec is docker exec: it runs a command and returns its exit code.
func (e *Engine) Exec(tb testing.TB, name string, argv ...string) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience.Limit)
	defer cancel()
	made, err := e.client.ContainerExecCreate(ctx, name, container.ExecOptions{Cmd: argv})
	must(tb, "run a command in", name, err)
	must(tb, "run a command in", name, e.client.ContainerExecStart(ctx, made.ID, container.ExecStartOptions{Detach: true}))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		i, err := e.client.ContainerExecInspect(ctx, made.ID)
		must(tb, "run a command in", name, err)
		if !i.Running && i.Pid != 0 {
			return i.ExitCode
		}
		<-tick.C
	}
}

func must(tb testing.TB, do, name string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("cannot %s container %s: %v", do, name, err)
	}
}
