package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

func (a *app) holdCommand() *cobra.Command {
	var limit string
	var all, fleet bool
	cmd := &cobra.Command{
		Use:   "hold NAME… | --all | --fleet SERVICE…",
		Short: "Pause restarts of containers, for maintenance",
		Long: "Pause restarts of containers, whatever their probes say and however they end, until a resume or\n" +
			"the end of the time. Probing goes on. A second hold replaces the first. NAME is a container, a\n" +
			"service or a Compose project. With --fleet it is for all containers of a service, on all hosts.",
		Example:           "  healthd hold shop-web-1\n  healthd hold shop/web shop-db-1\n  healthd hold shop --for 10m\n  healthd hold --all --for 1h\n  healthd hold --fleet shop/web --for 1h",
		Args:              namesOrAll(&all, &fleet),
		ValidArgsFunction: a.completeFleet(&fleet, false, a.completeWords),
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
			if fleet {
				return a.changeFleetHold(cmd, "hold", query, "held on all hosts"+forHow, args)
			}
			supervised := func(s api.Status) bool { return s.Invalid == "" }
			held := func(api.Status) string { return "held" + forHow }
			return a.changeHold(cmd, holdChange{"hold", query, held, supervised}, args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all supervised containers")
	cmd.Flags().BoolVar(&fleet, "fleet", false, "the names are services of the fleet: hold them on all hosts")
	cmd.Flags().StringVar(&limit, "for", "", "end the hold after this `DURATION`, such as 10m (default: at a resume)")
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	var all, fleet bool
	cmd := &cobra.Command{
		Use:   "resume NAME… | --all | --fleet SERVICE…",
		Short: "End the hold of containers",
		Long: "End the hold of containers, and have healthd restart again what it has given up. If a restart waited\n" +
			"for that, healthd begins it. NAME is a container, a service or a Compose project. With --fleet it is\n" +
			"the end of the hold of a service on all hosts; a container that was held by its name stays held.",
		Example:           "  healthd resume shop-web-1\n  healthd resume --all\n  healthd resume --fleet shop/web",
		Args:              namesOrAll(&all, &fleet),
		ValidArgsFunction: a.completeFleet(&fleet, false, a.completeWords),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fleet {
				return a.changeFleetHold(cmd, "resume", nil, "no longer held on all hosts", args)
			}
			return a.changeHold(cmd, holdChange{"resume", nil, afterResume, awaitsResume}, args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all containers that are held or given up")
	cmd.Flags().BoolVar(&fleet, "fleet", false, "the names are services of the fleet: end their hold on all hosts")
	return cmd
}

// holdChange is a hold or its end.
type holdChange struct {
	what     string // the request
	query    url.Values
	is       func(before api.Status) string // what a container is after it
	concerns func(api.Status) bool          // which of all containers
}

// awaitsResume says whether a resume changes something: it ends a hold, and healthd's giving up.
func awaitsResume(s api.Status) bool {
	return s.Held || s.State.Waiting != nil && s.State.Waiting.Reason == core.WaitGaveUp
}

// afterResume says what a resume has changed.
func afterResume(before api.Status) string {
	switch {
	case before.Held:
		return "no longer held"
	case awaitsResume(before):
		return "no longer given up"
	}
	return "was neither held nor given up: nothing changes"
}

// changeHold requests a hold or its end for the containers of these names, or for all, and prints of
// which it came about. It goes on after one that is refused.
func (a *app) changeHold(cmd *cobra.Command, change holdChange, names []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	defer outliveReader()()
	c.awaitSync(ctx)
	starting := c.starting(ctx) // before the look at the containers, which then are all there are
	found, failed, err := c.targets(ctx, change.what, names)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		found[0].containers = slices.DeleteFunc(found[0].containers, func(s api.Status) bool { return !change.concerns(s) })
	}
	refused, err := a.changeEach(ctx, c, change, found)
	failed = append(failed, refused...)
	switch {
	case err != nil:
		failed = append(failed, err)
	case starting != nil && slices.ContainsFunc(found, target.isGroup):
		failed = append(failed, fmt.Errorf("cannot %s what healthd does not know yet: %w", change.what, starting))
	}
	return errors.Join(failed...)
}

// changeEach requests the change for each container; failed has an error for each that is refused, and for
// what could not be printed, which keeps nothing from the rest. What is Invalid is refused only if it was named
// itself: else a hold of all would fail for one wrong label.
func (a *app) changeEach(ctx context.Context, c *client, change holdChange, targets []target) (failed []error, err error) {
	named := map[string]bool{}
	for _, t := range targets {
		if !t.isGroup() {
			named[t.containers[0].ID] = true
		}
	}
	all := containersOf(targets)
	api.DisplayNames(all)
	var unprinted error
	for _, s := range all {
		if s.Invalid != "" && !named[s.ID] {
			fmt.Fprintf(a.stderr, "warning: %s is Invalid: there is nothing to %s, healthd restarts nothing of it\n", line(s.Name), change.what)
			continue
		}
		err := c.post(ctx, containerPath(runtime.IDPrefix+s.ID, change.what), change.query, &api.Status{})
		if refused, ok := errors.AsType[*responseError](err); ok {
			if gone := refused.status == http.StatusNotFound && !named[s.ID]; !gone { // removed since the look
				failed = append(failed, c.requestError(ctx, change.what, s.Name, err))
			}
			continue
		}
		if err != nil {
			return failed, err // nor would the rest succeed
		}
		if unprinted == nil {
			_, unprinted = fmt.Fprintf(a.stdout, "%s: %s\n", line(s.Name), change.is(s))
		}
	}
	return failed, unprinted
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
