package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

func (a *app) holdCommand() *cobra.Command {
	var limit string
	cmd := &cobra.Command{
		Use:   "hold NAME",
		Short: "Pause restarts of a container, for maintenance",
		Long: "Pause restarts of a container, whatever its probes say and however it ends, until a resume or\n" +
			"the end of the time. Probing goes on. A second hold replaces the first.",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, forHow := url.Values{}, ""
			if cmd.Flags().Changed("for") {
				d, err := api.ParseHold(limit)
				if err != nil {
					return usageError{fmt.Errorf("--%w", err)}
				}
				query.Set("for", limit)
				forHow = " for " + d.String()
			}
			return a.changeHold(cmd, "hold", args[0], query, "held"+forHow)
		},
	}
	cmd.Flags().StringVar(&limit, "for", "", "end the hold after this `DURATION`, such as 10m (default: at a resume)")
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "resume NAME",
		Short:             "End the hold of a container",
		Long:              "End the hold of a container. If a restart waited for that, healthd begins it.",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHold(cmd, "resume", args[0], nil, "no longer held")
		},
	}
}

// changeHold requests a hold or its end, and prints the result.
func (a *app) changeHold(cmd *cobra.Command, what, name string, query url.Values, is string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	var s api.Status
	if err := c.post(ctx, containerPath(name, what), query, &s); err != nil {
		return c.requestError(ctx, what, name, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %s\n", line(s.Name), is)
	return err
}

// heldText says until when a container is held.
func heldText(s api.Status, now time.Time) string {
	if s.HeldUntil.IsZero() {
		return "until a resume"
	}
	return fmt.Sprintf("for another %s, until %s", max(0, s.HeldUntil.Sub(now)).Round(time.Second), formatTime(s.HeldUntil))
}

// refusedRestart adds what to do when a hold is why a restart was refused.
func (c *client) refusedRestart(ctx context.Context, name string, err error) error {
	refused, ok := errors.AsType[*responseError](err)
	err = c.requestError(ctx, "restart", name, err)
	var s api.Status
	if ok && refused.status == http.StatusConflict && c.get(ctx, containerPath(name), nil, &s) == nil && s.Held {
		return fmt.Errorf("%w (healthd resume %s)", err, name)
	}
	return err
}
