package containerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/types/known/anypb"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// errNoTask says that a container does not run.
var errNoTask = errors.New("it does not run")

// Processes returns what runs in the container, as /proc shows it.
func (e *Engine) Processes(ctx context.Context, id string) (runtime.Processes, error) {
	p := runtime.Processes{Titles: hostproc.Titles()}
	err := e.aboutTask(ctx, id, "list the processes of", func(ctx context.Context, c *client.Client, k key) error {
		answer, err := c.TaskService().ListPids(ctx, &tasks.ListPidsRequest{ContainerID: k.id})
		if err != nil {
			return err
		}
		for _, process := range answer.Processes {
			if row := hostproc.Row(int(process.Pid)); row != nil {
				p.Add(row)
			}
		}
		if len(answer.Processes) > 0 && len(p.Rows) == 0 {
			return errors.New("/proc shows none of them: healthd is in a PID namespace of its own, or they have ended")
		}
		return nil
	})
	return p, err
}

// Usage returns what the container uses now.
func (e *Engine) Usage(ctx context.Context, id string) (u runtime.Usage, err error) {
	err = e.aboutTask(ctx, id, "measure", func(ctx context.Context, c *client.Client, k key) error {
		answer, err := c.TaskService().Metrics(ctx, &tasks.MetricsRequest{Filters: []string{"id==" + k.id}})
		if err != nil {
			return err
		}
		for _, m := range answer.Metrics {
			if m.ID == k.id {
				u, err = usageOf(m.Data)
				return err
			}
		}
		return errNoTask
	})
	return u, err
}

// aboutTask asks something of a container's task. Its shim may hang.
func (e *Engine) aboutTask(ctx context.Context, id, doing string, ask func(context.Context, *client.Client, key) error) error {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return err
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	err = native(ask(in(ctx, k.namespace), c, k))
	if errdefs.IsNotFound(err) || errors.Is(err, errNoTask) {
		err = errNoTask
		if _, gone := e.container(ctx, c, k); errors.Is(gone, runtime.ErrNotFound) {
			err = gone
		}
	}
	return e.containerError(err, doing, k)
}

// usageOf reads what a shim tells of a cgroup, of either version.
func usageOf(data *anypb.Any) (runtime.Usage, error) {
	if data == nil {
		return runtime.Usage{}, errNoTask
	}
	measured, err := typeurl.UnmarshalAny(data)
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("cannot read containerd's answer: %w", err)
	}
	switch m := measured.(type) {
	case *cgroup2.Metrics:
		mem, cpu, pids := m.GetMemory(), m.GetCPU(), m.GetPids()
		return runtime.Usage{
			Memory: less(mem.GetUsage(), mem.GetInactiveFile()), MemoryLimit: limit(mem.GetUsageLimit()),
			CPU: microseconds(cpu.GetUsageUsec()), Throttled: microseconds(cpu.GetThrottledUsec()),
			PIDs: pids.GetCurrent(), PIDsLimit: limit(pids.GetLimit()),
		}, nil
	case *cgroup1.Metrics:
		mem, cpu, pids := m.GetMemory(), m.GetCPU(), m.GetPids()
		return runtime.Usage{
			Memory: less(mem.GetUsage().GetUsage(), mem.GetTotalInactiveFile()), MemoryLimit: limit(mem.GetUsage().GetLimit()),
			CPU: time.Duration(cpu.GetUsage().GetTotal()), Throttled: time.Duration(cpu.GetThrottling().GetThrottledTime()),
			PIDs: pids.GetCurrent(), PIDsLimit: limit(pids.GetLimit()),
		}, nil
	}
	return runtime.Usage{}, fmt.Errorf("containerd tells a %s, which healthd cannot read", data.GetTypeUrl())
}

func microseconds(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

// less returns a-b, and a where b is greater.
func less(a, b uint64) uint64 {
	if b > a {
		return a
	}
	return a - b
}

// limit returns 0 for what is no limit: cgroups tell the greatest number, in pages in version 1.
func limit(n uint64) uint64 {
	const most = 1 << 62
	if n >= most {
		return 0
	}
	return n
}
