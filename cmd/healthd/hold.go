package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"healthd/runtime"
	"healthd/supervisor/api"
)

func (a *app) holdCommand() *cobra.Command {
	var limit string
	var all bool
	cmd := &cobra.Command{
		Use:   "hold NAME… | --all",
		Short: "Pause restarts of containers, for maintenance",
		Long: "Pause restarts of containers, whatever their probes say and however they end, until a resume or\n" +
			"the end of the time. Probing goes on. A second hold replaces the first. NAME is a container, a\n" +
			"service or a Compose project.",
		Example:           "  healthd hold shop-web-1\n  healthd hold shop --for 10m",
		Args:              namesOrAll(&all),
		ValidArgsFunction: a.completeNames,
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
			return a.changeHold(cmd, "hold", args, query, "held"+forHow)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all containers")
	cmd.Flags().StringVar(&limit, "for", "", "end the hold after this `DURATION`, such as 10m (default: at a resume)")
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "resume NAME… | --all",
		Short: "End the hold of containers",
		Long: "End the hold of containers, and have healthd restart again what it has given up. If a restart waited\n" +
			"for that, healthd begins it. NAME is a container, a service or a Compose project.",
		Example:           "  healthd resume shop-web-1\n  healthd resume --all",
		Args:              namesOrAll(&all),
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHold(cmd, "resume", args, nil, "no longer held")
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all containers")
	return cmd
}

// namesOrAll checks that there are names, or --all in their place.
func namesOrAll(all *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if (len(args) > 0) != *all {
			return nil
		}
		name, _, _ := strings.Cut(cmd.Use, " ")
		return usageError{fmt.Errorf("%s takes names, or --all", name)}
	}
}

// changeHold requests a hold or its end for the containers of these names, or for all, and prints the
// results. It goes on after one that is refused.
func (a *app) changeHold(cmd *cobra.Command, what string, names []string, query url.Values, is string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	found, failed, err := c.targets(ctx, what, names)
	if err != nil {
		return err
	}
	shown := slices.Clone(found)
	api.DisplayNames(shown)
	for i, target := range found {
		name := shown[i].Name
		var s api.Status
		if err := c.post(ctx, containerPath(runtime.IDPrefix+target.ID, what), query, &s); err != nil {
			failed = append(failed, c.requestError(ctx, what, name, err))
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", line(name), is); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
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
