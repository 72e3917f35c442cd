package containerd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"

	"healthd/runtime/hostproc"
)

// unended is the error about a command that could not be ended: its processes are not visible
// here, or the kernel does not let them die, or containerd does not say what became of it.
type unended struct {
	execution
	why    error
	report sync.Once
}

// Error implements error.
func (u *unended) Error() string { return "cannot kill the command: " + u.why.Error() }

// Unwrap returns why it could not be ended.
func (u *unended) Unwrap() error { return u.why }

// StillRuns tries again to end the command. It returns false and nil when the command has
// ended, true and why it cannot be ended while it runs, and false and an error when that is
// not known. Any number of goroutines may call it.
func (u *unended) StillRuns(ctx context.Context) (bool, error) {
	x := u.execution // a copy: others may ask, too
	c, err := x.engine.client()
	if err != nil {
		return false, err
	}
	x.client = c
	switch fate, err := x.kill(ctx, killAgainTimeout); fate {
	case dead:
		x.forget()
		return false, nil
	case alive:
		u.reportOnce(err)
		return true, fmt.Errorf("cannot kill the command: %w", err)
	default:
		return false, err
	}
}

// reportOnce warns of a command that is known to run on.
func (u *unended) reportOnce(why error) {
	u.report.Do(func() {
		u.engine.log.Warn("a command runs on in its container, because healthd cannot kill it; a restart of the container ends it",
			zap.String("container", short(u.key.String())), zap.Error(why))
	})
}

// end ends the command with all its descendants, even after ctx has ended. The error is
// unended if it could not.
func (x *execution) end(ctx context.Context) error {
	fate, err := x.kill(context.WithoutCancel(ctx), execKillTimeout)
	if fate == dead {
		return nil
	}
	u := &unended{execution: *x, why: err}
	if fate == alive {
		u.reportOnce(err)
	}
	return u
}

// fate is what has become of a command that was to be killed.
type fate int

const (
	unknown fate = iota
	made         // and not started
	alive
	dead
)

// kill kills the command with all its descendants, and waits until containerd has noticed, at
// most for the timeout. The error says why it is not dead.
func (x *execution) kill(ctx context.Context, timeout time.Duration) (fate, error) {
	ctx, cancel := context.WithTimeout(in(ctx, x.key.namespace), timeout)
	defer cancel()
	f, err := x.ask(ctx)
	if f == made { // if its start is only late, it fails
		if err = x.engine.deleteCommand(ctx, taskExec{x.key, x.id}); err == nil || errdefs.IsNotFound(err) {
			return dead, nil
		}
		return unknown, err
	}
	if f == dead || x.pid == 0 {
		return f, err
	}
	why := x.tree(ctx).Kill(ctx)
	if why != nil {
		// It may not be seen from here, and containerd can at least end the command itself.
		_, err := x.client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: x.key.id, ExecID: x.id, Signal: 9})
		why = errors.Join(why, native(err))
	}
	for {
		if f, err = x.ask(ctx); f == dead {
			return dead, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return f, errors.Join(why, err, ctx.Err())
		}
	}
}

// ask asks containerd whether the command runs, and for its process.
func (x *execution) ask(ctx context.Context) (fate, error) {
	answer, err := x.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: x.key.id, ExecID: x.id})
	switch err = native(err); {
	case errdefs.IsNotFound(err):
		return dead, nil
	case err != nil:
		return unknown, x.engine.explain(err)
	case answer.Process == nil || answer.Process.Status == task.Status_UNKNOWN:
		return unknown, errHung
	case answer.Process.Status == task.Status_STOPPED:
		x.ended, x.code = answer.Process.ExitedAt.AsTime(), int(answer.Process.ExitStatus)
		return dead, nil
	case answer.Process.Status == task.Status_CREATED && x.pid == 0:
		return made, nil
	}
	if x.pid == 0 {
		x.pid = int(answer.Process.Pid)
	}
	return alive, nil
}

// tree returns what runs of the command. Those of the container are in the cgroup of its main
// process: IDs of containerd are no good sign, they may be as short as a name.
func (x *execution) tree(ctx context.Context) hostproc.Tree {
	main := x.pid
	if p, err := x.engine.process(ctx, x.client, x.key.id); err == nil && p != nil {
		main = int(p.Pid)
	}
	return hostproc.Tree{Root: x.pid, Mark: x.mark, Inside: hostproc.SameCgroup(main)}
}

// finishOutput waits for output that was written but not yet read. Background processes of a
// command with a timeout that hold it open are killed.
func (x *execution) finishOutput(ctx context.Context) {
	if x.out.waitForRest() || x.timeout == noTimeout {
		return
	}
	ctx, cancel := context.WithTimeout(in(context.WithoutCancel(ctx), x.key.namespace), execKillTimeout)
	defer cancel()
	_ = x.tree(ctx).KillPipeHolders(ctx, func(mark string) bool { return mark == x.mark })
	x.out.waitForRest()
}

// delete makes containerd forget the command. It waits for nobody who holds the output open.
func (x *execution) delete() {
	if x.cancel != nil {
		x.cancel()
	}
	ended := x.out.ended()
	x.out.close()
	if ended {
		x.forget()
		return
	}
	x.engine.calling.Go(x.forget)
}
