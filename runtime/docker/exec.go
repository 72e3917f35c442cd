package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

const (
	// marker is set in the environment of a command, so that processes which left
	// its session and its tree are found when it must be killed.
	marker = "HEALTHD_EXEC"
	// lasting is in the marks of commands without a timeout: what those leave behind
	// may be meant to stay.
	lasting = "lasting"

	noTimeout = time.Duration(math.MaxInt64)

	pollMin    = 5 * time.Millisecond
	pollMax    = 100 * time.Millisecond
	setUpMax   = 30 * time.Second // from the request to the start of the process
	outputWait = 100 * time.Millisecond
	killMax    = 5 * time.Second // from SIGKILL until the engine has noticed
)

// Exec runs argv inside the container, without a shell, and returns when its
// process has ended, whoever still holds its output open. The process and all
// its descendants are killed when timeout, counted from the start of the process,
// is over (timedOut) or ctx ends (err). The greatest Duration is no timeout. output
// is what it wrote: stdout, then stderr, at most limit bytes. err means that nothing
// is known of the command's success. When both timedOut and err are set, the time
// was over, and err says why the command could not be killed.
//
// What a command with a timeout leaves behind is let live unless it holds the
// command's output open and so keeps the engine from telling of an end.
func (e *Engine) Exec(ctx context.Context, id string, argv []string, timeout time.Duration, limit int) (output []byte, exitCode int, timedOut bool, err error) {
	x := &execution{engine: e, container: id, mark: e.newMark(timeout), timeout: timeout}
	e.commands.Store(x.mark, nil)
	defer e.commands.Delete(x.mark)
	if err := x.create(ctx, argv); err != nil {
		return nil, 0, false, err
	}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	out := x.start(streamCtx, limit)
	defer func() {
		cancel()
		<-out.done
	}()
	exitCode, timedOut, err = x.wait(ctx, out)
	if err == nil && !timedOut {
		out.settle(ctx)
	}
	if errors.Is(err, errNotStarted) {
		out.settle(ctx)
		err = notStarted(fmt.Sprintf("cannot run %q in container %s: %s", argv[0], short(id), out.reason()))
	}
	return out.bytes(), exitCode, timedOut, err
}

// errNotStarted says that the engine could not start the command's process.
var errNotStarted = errors.New("the command could not be started")

// notStarted is that error as callers see it.
type notStarted string

func (n notStarted) Error() string { return string(n) }

// NotStarted tells the command's own fault from trouble with the engine.
func (n notStarted) NotStarted() bool { return true }

// execution is one command inside a container.
type execution struct {
	engine    *Engine
	client    *client.Client
	container string // as given; the full ID once it is created
	id        string // of the exec
	mark      string
	timeout   time.Duration
	pid       int // on the engine's host; 0 until the process was seen
}

func (x *execution) create(ctx context.Context, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := x.engine.client(ctx)
	if err != nil {
		return err
	}
	created, err := c.ContainerExecCreate(ctx, x.container, container.ExecOptions{
		Cmd: argv, AttachStdout: true, AttachStderr: true, Env: []string{x.mark},
	})
	if err != nil {
		return x.engine.about(err, "run a command in", x.container)
	}
	x.client, x.id = c, created.ID
	return nil
}

// wait follows the command through inspections, because only they tell when it
// has ended: its output may be held open by others, and the answer to the start
// may be lost.
func (x *execution) wait(ctx context.Context, out *output) (exitCode int, timedOut bool, err error) {
	limit := time.NewTimer(setUpMax)
	defer limit.Stop()
	poll := time.NewTimer(pollMin)
	defer poll.Stop()
	eof, every, started := out.done, pollMin, false
	delay := &delay{execution: x}
	for {
		select {
		case <-ctx.Done():
			return 0, false, errors.Join(ctx.Err(), x.kill(ctx))
		case <-limit.C:
			if !started {
				return 0, false, errors.Join(fmt.Errorf("cannot run a command in container %s: not started after %v",
					short(x.container), setUpMax), x.kill(ctx))
			}
			if delay.gone() {
				exitCode, err := x.lateEnd(ctx)
				return exitCode, false, err
			}
			return 0, true, x.kill(ctx)
		case <-eof:
			eof = nil
			every = pollMin
		case <-poll.C:
		}
		in, err := x.inspect(ctx)
		switch {
		case err != nil:
			return 0, false, errors.Join(err, x.kill(ctx))
		case in.ended():
			if in.Pid == 0 && !started {
				return 0, false, errNotStarted
			}
			return *in.ExitCode, false, nil
		case in.Pid != 0 && !started:
			started, every = true, pollMin
			limit.Reset(x.timeout)
		case !started && !in.Running && eof == nil && out.failed() != nil:
			return 0, false, x.engine.about(out.failed(), "run a command in", x.container)
		case started && delay.end(ctx):
			every = pollMin
		}
		poll.Reset(every)
		every = min(every*3/2, pollMax)
	}
}

// kill ends the command with all its descendants. It does not mind that ctx has
// ended.
func (x *execution) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killMax)
	defer cancel()
	// A command that has not started yet would outlive us: its process is waited
	// for, to be killed.
	if err := x.until(ctx, func(in execState) bool { return in.Pid != 0 || in.ended() || !in.Running }); err != nil && x.pid == 0 {
		return fmt.Errorf("cannot kill the command: %w", err)
	}
	if x.pid == 0 {
		return nil
	}
	t := tree{root: x.pid, container: x.container, mark: x.mark}
	if err := t.kill(ctx); err != nil {
		if in, look := x.inspect(ctx); look == nil && in.ended() {
			return nil
		}
		return fmt.Errorf("cannot kill the command: %w", err)
	}
	if err := x.until(ctx, execState.ended); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return fmt.Errorf("the command was killed, but the engine still calls it running: %w", err)
	}
	return nil
}

func (x *execution) until(ctx context.Context, done func(execState) bool) error {
	for every := pollMin; ; every = min(2*every, pollMax) {
		in, err := x.inspect(ctx)
		if err != nil {
			return err
		}
		if done(in) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// execState is what an exec's inspection tells. The client's own type makes no
// difference between an exec that has not begun and one that ended with 0.
type execState struct {
	ContainerID string
	Running     bool
	ExitCode    *int
	Pid         int
}

func (s execState) ended() bool { return !s.Running && s.ExitCode != nil }

func (x *execution) inspect(ctx context.Context) (execState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var in execState
	answered := x.unlock(ctx)
	err := x.engine.get(ctx, x.client, "/exec/"+x.id+"/json", &in)
	answered()
	if err != nil {
		return in, x.engine.about(err, "inspect a command in", x.container)
	}
	if in.Pid != 0 {
		x.pid = in.Pid
	}
	if in.ContainerID != "" {
		x.container = in.ContainerID
	}
	return in, nil
}
