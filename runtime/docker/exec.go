package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"healthd/runtime/hostproc"
)

const (
	// markNoTimeout is the mark of commands without a timeout (hooks). Their background
	// processes may be meant to stay.
	markNoTimeout = "lasting"

	noTimeout = time.Duration(math.MaxInt64)

	pollMin           = 5 * time.Millisecond   // once the end of the output says that the command has ended
	pollMax           = 100 * time.Millisecond // of a command's first second
	pollSlowest       = 10 * time.Second
	execStartTimeout  = 30 * time.Second       // from the request to the start of the process
	outputRestTimeout = 100 * time.Millisecond // from the end of the process to the end of its output
	killTimeout       = 5 * time.Second        // from SIGKILL until the engine has noticed
	killAgainTimeout  = 500 * time.Millisecond // the same, for another attempt
)

// Exec runs argv inside the container, without a shell, and returns when its process
// has ended, even if a background process still holds its output open. The process and
// all its descendants are killed when the timeout, counted from the start of the
// process, is over (timedOut) or ctx ends (err). The greatest Duration means no timeout.
//
// output is stdout, then stderr, together at most limit bytes. started, unless it is nil,
// is called when the process was seen running.
//
// err means that nothing is known about the command's success. An err with a method
// NotStarted() bool that returns true says that the container has no such command or
// cannot run it. An err with a method StillRuns says that the command could not be ended;
// see unended. Together with timedOut it says why it could not.
//
// Background processes of a command with a timeout survive, unless they hold its output
// open and so keep the engine from reporting the end of commands.
func (e *Engine) Exec(ctx context.Context, id string, argv []string, timeout time.Duration, limit int, started func()) (output []byte, exitCode int, timedOut bool, err error) {
	x := &execution{engine: e, container: id, mark: e.newMark(timeout), timeout: timeout, started: started}
	e.runningMarks.Store(x.mark, nil)
	defer e.runningMarks.Delete(x.mark)
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
		out.waitForRest(ctx)
	}
	if errors.Is(err, errNotStarted) {
		out.waitForRest(ctx)
		err = notStarted(fmt.Sprintf("cannot run %q in container %s: %s", argv[0], short(id), out.startError()))
	}
	return out.bytes(), exitCode, timedOut, err
}

// errNotStarted says that the engine could not start the command's process.
var errNotStarted = errors.New("the command could not be started")

// notStarted is errNotStarted for the caller, with the engine's reason.
type notStarted string

func (n notStarted) Error() string { return string(n) }

// NotStarted says that the command is at fault, not the engine.
func (n notStarted) NotStarted() bool { return true }

// execution is one command inside a container.
type execution struct {
	engine    *Engine
	client    *client.Client
	container string // as given; the full ID once it is created
	id        string // of the exec
	mark      string
	timeout   time.Duration
	started   func() // may be nil
	startedAt time.Time
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
	if err == nil && created.ID == "" { // of which later questions would find nothing out
		err = errors.New("the engine's answer names no command")
	}
	if err != nil {
		return x.engine.containerError(err, "run a command in", x.container)
	}
	x.client, x.id = c, created.ID
	return nil
}

// wait inspects the exec until the command has ended: at the end of its output, and from time to
// time. The end of the output alone does not show that: a background process may hold it open,
// and the connection may break. An inspection costs about 1.5 ms of CPU here and in the engine, so
// there are few before the end of the output.
func (x *execution) wait(ctx context.Context, out *output) (exitCode int, timedOut bool, err error) {
	limit := time.NewTimer(execStartTimeout)
	defer limit.Stop()
	exit := &undetectedExit{execution: x}
	eof, every := out.done, pollSlowest
	poll := time.NewTimer(exit.slowestPoll(time.Now()))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, false, errors.Join(ctx.Err(), x.end(ctx))
		case <-limit.C:
			if x.startedAt.IsZero() {
				return 0, false, errors.Join(fmt.Errorf("cannot run a command in container %s: not started after %v",
					short(x.container), execStartTimeout), x.end(ctx))
			}
			if exit.processGone() {
				exitCode, err := x.exitCodeAfterTimeout(ctx)
				return exitCode, false, err
			}
			return 0, true, x.end(ctx)
		case <-eof:
			eof = nil
			every = pollMin
		case <-poll.C:
		}
		in, err := x.inspect(ctx)
		switch {
		case err != nil:
			return 0, false, errors.Join(err, x.end(ctx))
		case in.ended():
			if in.failedToStart() && x.startedAt.IsZero() {
				return 0, false, errNotStarted
			}
			return *in.ExitCode, false, nil
		case in.Pid != 0 && x.startedAt.IsZero():
			x.hasStarted()
			limit.Reset(x.timeout)
		case x.startedAt.IsZero() && !in.Running && eof == nil && out.failed() != nil:
			return 0, false, x.engine.containerError(out.failed(), "run a command in", x.container)
		case !x.startedAt.IsZero() && exit.unblock(ctx):
			every = pollMin
		}
		slowest := exit.slowestPoll(time.Now())
		poll.Reset(min(every, slowest))
		every = min(every*3/2, slowest)
	}
}

func (x *execution) hasStarted() {
	x.startedAt = time.Now()
	if x.started != nil {
		x.started()
	}
}

func (x *execution) pollUntil(ctx context.Context, done func(execState) bool) error {
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

// execState is the answer to an exec's inspection. In the client's own type an exec that
// has not begun looks like one that ended with 0.
type execState struct {
	Running   bool
	ExitCode  *int
	Pid       int
	CanRemove bool // Podman: it has ended
}

func (s execState) ended() bool { return !s.Running && s.ExitCode != nil && !s.zeroAtFirst() }

// zeroAtFirst says that the exit code stands for none: Docker tells none of a command that has
// not begun, Podman tells 0.
func (s execState) zeroAtFirst() bool {
	return s.Pid == 0 && !s.CanRemove && s.ExitCode != nil && *s.ExitCode == 0
}

// failedToStart says that a command that has ended never ran. Docker keeps the PID of one that
// did; Podman tells none of all that have ended.
func (s execState) failedToStart() bool { return s.Pid == 0 && !s.CanRemove }

func (x *execution) inspect(ctx context.Context) (execState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var in execState
	answered := x.unblockInspect(ctx)
	err := x.engine.get(ctx, x.client, "/exec/"+x.id+"/json", &in)
	answered()
	if err != nil {
		return in, x.engine.containerError(err, "inspect a command in", x.container)
	}
	if in.Pid != 0 {
		x.pid = in.Pid
	}
	return in, nil
}

// tree returns what runs of a command. The engine's answer does not choose what healthd kills: only
// processes in the container that was asked for count, and none where the engine may be on another
// host, whose PIDs are those of other processes here.
func (x *execution) tree(root int, mark string) hostproc.Tree {
	local := x.engine.scheme() == "unix"
	return hostproc.Tree{Root: root, Mark: mark, Inside: func(pid int) bool { return local && hostproc.InContainer(pid, x.container) }}
}
