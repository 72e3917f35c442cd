package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"healthd/runtime/hostproc"
)

const (
	noTimeout = time.Duration(math.MaxInt64)

	execStartTimeout  = 30 * time.Second       // from the request to the start of the process
	outputRestTimeout = 100 * time.Millisecond // from the end of the process to the end of its output
	execKillTimeout   = 5 * time.Second        // from SIGKILL until the engine has noticed
	killAgainTimeout  = 500 * time.Millisecond // the same, for another attempt
	// deleteTimeout is for a command whose output is held open: a shim takes ten seconds.
	deleteTimeout = 15 * time.Second
)

// Exec runs argv inside the container, without a shell, as the user of its main process, and
// returns when the process has ended, even if a background process still holds its output
// open. The process and all its descendants are killed when the timeout, counted from the
// start of the process, is over (timedOut) or ctx ends (err). The greatest Duration means no
// timeout.
//
// output is stdout, then stderr, together at most limit bytes. started, unless it is nil, is
// called when the process runs.
//
// err means that nothing is known about the command's success. An err with a method
// NotStarted() bool that returns true says that the container has no such command or cannot
// run it. An err with a method StillRuns says that the command could not be ended; see
// unended. Together with timedOut it says why it could not.
//
// Background processes of a command with a timeout survive, unless they hold its output open:
// the shim waits for them.
func (e *Engine) Exec(ctx context.Context, id string, argv []string, timeout time.Duration, limit int, started func()) (output []byte, exitCode int, timedOut bool, err error) {
	k, err := e.key(id)
	if err != nil {
		return nil, 0, false, err
	}
	x := &execution{
		engine: e, key: k, id: "healthd-" + rand.Text(), timeout: timeout,
		mark: hostproc.MarkVariable + "=" + rand.Text(), exited: make(chan exitStatus, 1),
	}
	if err := x.create(ctx, argv, limit); err != nil {
		return nil, 0, false, e.containerError(err, "run a command in", k)
	}
	defer x.delete()
	if err := x.start(ctx, argv[0]); err != nil {
		return nil, 0, false, err
	}
	if started != nil {
		started()
	}
	exitCode, timedOut, err = x.wait(ctx)
	x.finishOutput(ctx)
	return x.out.bytes(), exitCode, timedOut, err
}

// notStarted is the error about a command that the container cannot run.
type notStarted string

func (n notStarted) Error() string { return string(n) }

// NotStarted says that the command is at fault, not the engine.
func (n notStarted) NotStarted() bool { return true }

// execution is one command inside a container.
type execution struct {
	engine  *Engine
	client  *client.Client
	key     key
	id      string // of the exec
	mark    string
	timeout time.Duration
	out     *output
	exited  chan exitStatus
	cancel  context.CancelFunc // ends the call that waits for the exit
	pid     int                // on the host; 0: not started, or not known
	began   time.Time
	ended   time.Time // by itself or not, as containerd says when it is asked
	code    int       // with ended
}

type exitStatus struct {
	code int
	err  error
}

// create asks containerd for a process of the container that is not started yet.
func (x *execution) create(ctx context.Context, argv []string, limit int) error {
	ctx, cancel := context.WithTimeout(in(ctx, x.key.namespace), callTimeout)
	defer cancel()
	c, err := x.engine.client()
	if err != nil {
		return err
	}
	found, err := x.engine.container(ctx, c, x.key)
	if err != nil {
		return err
	}
	main := x.engine.specs.read(x.key, &found).process
	if main == nil {
		return errors.New("its specification cannot be read")
	}
	process := *main
	process.Args, process.CommandLine, process.Terminal, process.ConsoleSize = argv, "", false, nil
	process.Env = append(append([]string(nil), main.Env...), x.mark)
	spec, err := typeurl.MarshalAnyToProto(&process)
	if err != nil {
		return err
	}
	if x.out, err = x.engine.fifos.open(x.id, limit); err != nil {
		return err
	}
	_, err = c.TaskService().Exec(ctx, &tasks.ExecProcessRequest{
		ContainerID: x.key.id, ExecID: x.id, Stdout: x.out.Config().Stdout, Stderr: x.out.Config().Stderr, Spec: spec,
	})
	if err != nil {
		x.out.close()
		if err = native(err); errdefs.IsNotFound(err) {
			return errors.New("it is not running")
		}
		if isUnanswered(err) {
			x.engine.left.add(taskExec{x.key, x.id})
		}
		return err
	}
	x.client = c
	return nil
}

// start starts the process. It is not cut short when ctx ends: a process that nobody knows of
// would run on.
func (x *execution) start(ctx context.Context, command string) error {
	starting, cancel := context.WithTimeout(in(context.WithoutCancel(ctx), x.key.namespace), execStartTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(execKillTimeout, cancel) })()
	answer, err := x.client.TaskService().Start(starting, &tasks.StartRequest{ContainerID: x.key.id, ExecID: x.id})
	switch err = native(err); {
	case err == nil:
		x.pid, x.began = int(answer.Pid), time.Now()
		x.awaitExit()
		return nil
	case starting.Err() != nil, isUnanswered(err): // it may run
		return errors.Join(ctx.Err(), x.engine.containerError(err, "start a command in", x.key), x.end(ctx))
	case isCommandsFault(err):
		return notStarted(fmt.Sprintf("cannot run %q in container %s: %v", command, short(x.key.String()), err))
	}
	return x.engine.containerError(err, "run a command in", x.key)
}

// isCommandsFault says that runc, or crun, could not execute the command's file. They report
// all other failures in the same way.
func isCommandsFault(err error) bool {
	text := err.Error()
	return strings.Contains(text, `process: exec: "`) || strings.Contains(text, "executable file")
}

func (x *execution) awaitExit() {
	ctx, cancel := context.WithCancel(in(context.Background(), x.key.namespace))
	x.cancel = cancel
	x.engine.calling.Go(func() {
		answer, err := x.client.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: x.key.id, ExecID: x.id})
		x.exited <- exitStatus{int(answer.GetExitStatus()), native(err)}
	})
}

// wait returns when the process has ended.
func (x *execution) wait(ctx context.Context) (exitCode int, timedOut bool, err error) {
	var over <-chan time.Time
	if x.timeout != noTimeout {
		timer := time.NewTimer(x.timeout)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case exit := <-x.exited:
		x.exited <- exit // for whoever looks again
		if exit.err != nil {
			return 0, false, errors.Join(x.engine.containerError(exit.err, "wait for a command in", x.key), x.end(ctx))
		}
		return exit.code, false, nil
	case <-over:
		err := x.end(ctx)
		if !x.ended.IsZero() && x.ended.Sub(x.began) <= x.timeout { // only the news of it is late
			return x.code, false, nil
		}
		return 0, true, err
	case <-ctx.Done():
		return 0, false, errors.Join(ctx.Err(), x.end(ctx))
	}
}
