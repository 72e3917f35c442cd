package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

func (a *app) restartCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "restart NAME",
		Example: "  healthd restart shop-web-1",
		Short:   "Restart a container as after a failed liveness probe",
		Long: "Withdraw a container's readiness, drain it, stop it, start it again, and wait for the new run.\n" +
			"An interrupt ends the wait, not the restart. healthd does not restart a held container.",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout must be more than 0s, it is %q", timeout)}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			defer outliveReader()()
			c.awaitSync(ctx)
			limited, cancelLimit := context.WithTimeout(ctx, timeout)
			defer cancelLimit()
			asked, err := a.restart(limited, c, args[0])
			if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				return gaveUpWaiting(args[0], asked, ctx.Err() != nil, timeout)
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for the new run")
	return cmd
}

// gaveUpWaiting is the error of a restart that the command no longer waits for. A restart
// that the daemon has not confirmed may go on or not.
func gaveUpWaiting(name string, asked, interrupted bool, timeout time.Duration) error {
	switch {
	case !asked && interrupted:
		return fmt.Errorf("cannot restart %s: interrupted before the daemon answered", name)
	case !asked:
		return fmt.Errorf("cannot restart %s: the daemon did not answer within %s", name, timeout)
	case interrupted:
		return fmt.Errorf("cannot see the new run of %s: interrupted; the restart goes on", name)
	}
	return fmt.Errorf("cannot see the new run of %s: it has not begun after %s; the restart goes on", name, timeout)
}

// restart requests the restart and reports its progress until the container has a new run.
// asked says that the daemon has confirmed it.
func (a *app) restart(ctx context.Context, c *client, name string) (asked bool, err error) {
	var before, now api.Status
	if err := c.get(ctx, containerPath(name), nil, &before); err != nil {
		return false, c.requestError(ctx, "restart", name, err)
	}
	begin := time.Now()
	if err := c.do(ctx, http.MethodPost, containerPath(before.ID, "restart"), nil, "", &now); err != nil {
		return false, c.refusedRestart(ctx, name, err)
	}
	return true, a.waitForNewRun(ctx, c, before, now, begin)
}

// waitForNewRun reports the progress of a restart that was requested at begin.
func (a *app) waitForNewRun(ctx context.Context, c *client, before, now api.Status, begin time.Time) error {
	const pause = 100 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	said, stopping := "", false
	for {
		if r := now.State.Running; r != nil && newRun(before, now) {
			_, err := fmt.Fprintf(a.stdout, "%s: running again since %s, after %s\n",
				before.Name, formatTime(r.StartedAt), time.Since(begin).Round(pause))
			return err
		}
		if now.State.Terminated != nil {
			return fmt.Errorf("cannot restart %s: it has ended (%s), and healthd does not start it again: see healthd events %s",
				before.Name, now.State.Terminated.Reason, before.Name)
		}
		if stopping && now.State.Waiting == nil {
			return fmt.Errorf("cannot restart %s: healthd has given the restart up: see healthd events %s", before.Name, before.Name)
		}
		stopping = stopping || isDraining(now)
		if text := progress(before, now); text != said {
			said = text
			fmt.Fprintf(a.stdout, "%s: %s\n", before.Name, text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now = api.Status{} // what is not in the next answer must not stay
		if err := c.get(ctx, containerPath(before.ID), nil, &now); err != nil {
			return fmt.Errorf("cannot see the new run of %s: %w", before.Name, err)
		}
	}
}

func newRun(before, now api.Status) bool {
	old := before.State.Running
	return old == nil || !now.State.Running.StartedAt.Equal(old.StartedAt)
}

func isDraining(s api.Status) bool {
	return s.State.Waiting != nil && s.State.Waiting.Reason == core.WaitDraining
}

// progress says in a few words how far a restart is.
func progress(before, now api.Status) string {
	switch s := now.State; {
	case isDraining(now):
		return "draining and stopping"
	case s.Waiting != nil && s.Waiting.Reason == core.WaitRestarting:
		return "stopped, is being started"
	case s.Waiting != nil:
		return "stopped, waiting: " + s.Waiting.Reason + ": " + line(s.Waiting.Message)
	case newRun(before, now):
		return "running again"
	}
	return "restart requested"
}
