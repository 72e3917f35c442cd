package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"healthd/runtime"
)

// unended is the error about a command that could not be ended: its processes are not
// visible here, as with a remote engine, or the kernel does not let them die, or the
// engine does not say what became of it.
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
// ended, true and why it cannot be ended while it runs, and false and an error when that
// is not known. An engine that restarts forgets the commands of containers that run on:
// they count as ended. Any number of goroutines may call it.
func (u *unended) StillRuns(ctx context.Context) (bool, error) {
	x := u.execution
	c, err := x.engine.client(ctx) // it may have been renewed
	if err != nil {
		return false, err
	}
	x.client = c
	fate, err := x.kill(ctx, killAgainTimeout)
	switch fate {
	case dead:
		return false, nil
	case alive:
		u.reportOnce(err)
		return true, fmt.Errorf("cannot kill the command: %w", err)
	}
	return false, err
}

// reportOnce warns of a command that is known to run on.
func (u *unended) reportOnce(why error) {
	u.report.Do(func() {
		u.engine.log.Warn("a command runs on in its container, because healthd cannot kill it; a restart of the container ends it",
			zap.String("container", short(u.container)), zap.Error(why))
	})
}

// end ends the command with all its descendants, even after ctx has ended. The error is
// unended if it could not.
func (x *execution) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	fate, err := x.kill(ctx, killTimeout)
	if fate == dead {
		return err
	}
	u := &unended{execution: *x, why: err}
	if fate == alive {
		if x.endsSoon(ctx) {
			return nil
		}
		u.reportOnce(err)
	}
	return u
}

// endsSoon says whether a command that could not be killed ends now, as with its container.
func (x *execution) endsSoon(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, exitReportTimeout)
	defer cancel()
	err := x.pollUntil(ctx, execState.ended)
	return err == nil || errors.Is(err, runtime.ErrNotFound)
}

// fate is what has become of a command that was to be killed.
type fate int

const (
	unknown fate = iota
	alive
	dead
)

// kill kills the command with all its descendants, and waits until the engine has noticed,
// at most for the timeout. The error says why it is not dead, or that the engine does not
// know that it is.
func (x *execution) kill(ctx context.Context, timeout time.Duration) (fate, error) {
	killing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A command that has not started yet would run on after this call. Wait for its
	// process, to kill it.
	err := x.pollUntil(killing, func(in execState) bool { return in.Pid != 0 || in.ended() || !in.Running })
	switch {
	case x.pid == 0 && errors.Is(err, runtime.ErrNotFound):
		return dead, nil
	case x.pid == 0 && err != nil:
		return unknown, err
	case x.pid == 0:
		return dead, nil
	}
	t := x.tree(x.pid, x.mark)
	if err := t.Kill(killing); err != nil {
		return x.fateUnkilled(ctx, err)
	}
	if err := x.pollUntil(killing, execState.ended); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return dead, fmt.Errorf("the command was killed, but the engine still calls it running: %w", err)
	}
	return dead, nil
}

// fateUnkilled asks the engine about a command whose processes could not be killed.
func (x *execution) fateUnkilled(ctx context.Context, why error) (fate, error) {
	if x.tree(x.pid, "").RootEnded() {
		return dead, nil
	}
	switch in, err := x.inspect(ctx); {
	case errors.Is(err, runtime.ErrNotFound), err == nil && in.ended():
		return dead, nil
	case err != nil:
		return unknown, err
	}
	return alive, why
}
