package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

func (a *app) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon read its configuration again",
		Long: "Have the daemon read its configuration again, and wait for the outcome. A configuration that is\n" +
			"wrong changes nothing: all problems are printed, and the exit code is 1.",
		Example: "  healthd reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			c.timeout = reloadTimeout
			var done api.Reload
			if err := c.post(ctx, "/v1/reload", nil, &done); err != nil {
				return a.refusedReload(err)
			}
			return a.printReload(done)
		},
	}
}

// reloadTimeout is longer than what the daemon takes at most.
const reloadTimeout = 90 * time.Second

// refusedReload prints the problems for which the daemon has refused a configuration.
func (a *app) refusedReload(err error) error {
	refused, ok := errors.AsType[*responseError](err)
	if !ok {
		return err
	}
	for _, p := range refused.problems {
		fmt.Fprintln(a.stderr, line(p))
	}
	return fmt.Errorf("cannot reload: %s", line(refused.message))
}

func (a *app) printReload(done api.Reload) error {
	for _, w := range done.Warnings {
		fmt.Fprintln(a.stderr, "warning:", line(w))
	}
	for _, key := range done.NeedsRestart {
		fmt.Fprintln(a.stderr, "warning: a change of", line(key), "counts after a restart of healthd (systemctl restart healthd)")
	}
	_, err := fmt.Fprintln(a.stdout, "the configuration was reloaded:", plural(len(done.Specs), "spec"))
	return err
}
