package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
	"healthd/runtime/enginetest"
	"healthd/runtime/hostproc"
)

// What operators do with nerdctl, which leaves its traces in labels. Containers are named by
// ID or name.

// Name is the name of such a runtime.
func (e *Engine) Name() string { return "containerd" }

// Runtime returns the [[runtime]] of a configuration for the engine.
func (e *Engine) Runtime() string {
	return fmt.Sprintf("[[runtime]]\ntype = \"containerd\"\nendpoint = %q\n", e.Endpoint)
}

// StopByOperator is nerdctl stop.
func (e *Engine) StopByOperator(tb testing.TB, name string) {
	tb.Helper()
	id := e.find(tb, name)
	task := e.Task(tb, id)
	ended, err := task.Wait(e.In(tb, ""))
	must(tb, "stop", name, err)
	labels, err := e.load(tb, id).Labels(e.In(tb, ""))
	must(tb, "stop", name, err)
	sig, timeout := syscall.SIGTERM, 10*time.Second
	if text := labels["io.containerd.image.config.stop-signal"]; text != "" {
		sig = unix.SignalNum(text)
	}
	if seconds, err := strconv.Atoi(labels["nerdctl/stop-timeout"]); err == nil {
		timeout = time.Duration(seconds) * time.Second
	}
	e.OperatorStops(tb, id, sig)
	select {
	case <-ended:
	case <-time.After(timeout):
		e.Signal(tb, id, syscall.SIGKILL)
		<-ended
	}
}

// KillByOperator is nerdctl kill.
func (e *Engine) KillByOperator(tb testing.TB, name string, sig syscall.Signal) {
	tb.Helper()
	e.OperatorStops(tb, e.find(tb, name), sig)
}

// StartByOperator is nerdctl start.
func (e *Engine) StartByOperator(tb testing.TB, name string) {
	tb.Helper()
	id := e.find(tb, name)
	if task := e.Task(tb, id); task != nil {
		_, err := task.Delete(e.In(tb, ""))
		must(tb, "delete the task of", name, err)
	}
	e.StartTask(tb, "", id)
}

// RestartByOperator is nerdctl restart --time 0.
func (e *Engine) RestartByOperator(tb testing.TB, name string) {
	tb.Helper()
	id := e.find(tb, name)
	ended, err := e.Task(tb, id).Wait(e.In(tb, ""))
	must(tb, "restart", name, err)
	e.OperatorStops(tb, id, syscall.SIGKILL)
	<-ended
	e.StartByOperator(tb, id)
}

// Pause is nerdctl pause.
func (e *Engine) Pause(tb testing.TB, name string) {
	tb.Helper()
	task := e.Task(tb, e.find(tb, name))
	enginetest.Pause(tb, name, func() error { return task.Pause(e.In(tb, "")) })
}

// Unpause is nerdctl unpause.
func (e *Engine) Unpause(tb testing.TB, name string) {
	tb.Helper()
	must(tb, "unpause", name, e.Task(tb, e.find(tb, name)).Resume(e.In(tb, "")))
}

// Rename is nerdctl rename.
func (e *Engine) Rename(tb testing.TB, name, to string) {
	tb.Helper()
	e.SetLabel(tb, "", e.find(tb, name), "nerdctl/name", to)
}

// Inspect returns what containerd and the kernel show of a container. The start of a run that
// has ended is not known.
func (e *Engine) Inspect(tb testing.TB, name string) enginetest.Container {
	tb.Helper()
	task := e.Task(tb, e.find(tb, name))
	if task == nil {
		return enginetest.Container{}
	}
	ctx := named(context.WithoutCancel(tb.Context()), "")
	status, err := task.Status(ctx)
	if errdefs.IsNotFound(err) { // somebody has just deleted it, as a restart does
		return enginetest.Container{}
	}
	must(tb, "inspect", name, err)
	c := enginetest.Container{Running: status.Status == client.Running || status.Status == client.Paused, FinishedAt: status.ExitTime}
	if !c.Running {
		return c
	}
	c.Pid = int(task.Pid())
	p, err := hostproc.Read(c.Pid)
	if errors.Is(err, os.ErrNotExist) { // it has just ended
		return enginetest.Container{}
	}
	must(tb, "find the process of", name, err)
	c.StartedAt = booted().Add(time.Duration(p.StartTime) * hostproc.Tick)
	return c
}

// booted returns when the host was booted, the same at each call.
var booted = sync.OnceValue(func() time.Time {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		panic(err)
	}
	return time.Now().Round(0).Add(-time.Duration(since.Nano()))
})

// Exec is nerdctl exec: it runs a command and returns its exit code.
func (e *Engine) Exec(tb testing.TB, name string, argv ...string) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(e.In(tb, ""), patience.Limit)
	defer cancel()
	id := e.find(tb, name)
	spec, err := e.load(tb, id).Spec(ctx)
	must(tb, "run a command in", name, err)
	process := *spec.Process
	process.Args, process.Terminal = argv, false
	out := cio.NewCreator(cio.WithStreams(nil, io.Discard, io.Discard), cio.WithFIFODir(e.Path("fifo")))
	p, err := e.Task(tb, id).Exec(ctx, "operator-"+randomID()[:16], &process, out)
	must(tb, "run a command in", name, err)
	ended, err := p.Wait(ctx)
	must(tb, "run a command in", name, err)
	must(tb, "run a command in", name, p.Start(ctx))
	code, _, err := (<-ended).Result()
	must(tb, "run a command in", name, err)
	if _, err := p.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
		must(tb, "clean up after a command in", name, err)
	}
	return int(code)
}

func (e *Engine) load(tb testing.TB, id string) client.Container {
	tb.Helper()
	c, err := e.client.LoadContainer(e.In(tb, ""), id)
	must(tb, "find", id, err)
	return c
}

// find returns the ID of a container.
func (e *Engine) find(tb testing.TB, name string) string {
	tb.Helper()
	ctx := named(context.WithoutCancel(tb.Context()), "")
	if _, err := e.client.ContainerService().Get(ctx, name); err == nil {
		return name
	}
	all, err := e.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%q", "nerdctl/name", name))
	must(tb, "find", name, err)
	if len(all) != 1 {
		tb.Fatalf("%d containers are named %s", len(all), name)
	}
	return all[0].ID
}

func must(tb testing.TB, do, name string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("cannot %s container %s: %v", do, name, err)
	}
}
