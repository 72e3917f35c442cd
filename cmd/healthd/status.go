package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

// The forms that status and events are printed in.
const (
	asTable = "table"
	asWide  = "wide"
	asJSON  = "json"
	asName  = "name"
)

func (a *app) statusCommand() *cobra.Command {
	var f statusForm
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [NAME|SERVICE…] | --fleet [HOST|SERVICE…]",
		Short: "Show the containers and their health",
		Long: "Show the health of all containers that healthd supervises, or of those named, of a service or of a\n" +
			"Compose project. Warnings go to stderr.\n" +
			"With --fleet, show the hosts that share their containers over etcd, and their services; -o wide has the\n" +
			"members, too. With names, only what belongs to these hosts and services is shown and counted.\n" +
			"On a terminal the table has its width; elsewhere nothing is cut.",
		Example:           "  healthd status\n  healthd status --all\n  healthd status shop/web\n  healthd status shop-web-1 -o json\n  healthd status -o name | xargs healthd hold\n  healthd status --fleet\n  healthd status --fleet shop/web -o wide",
		ValidArgsFunction: a.completeFleet(&f.fleet, true, a.completeWords),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := oneOf("output", f.output, asTable, asWide, asJSON, asName); err != nil {
				return err
			}
			if err := f.check(names, watch); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			show := a.showStatus
			if f.fleet {
				show = a.showFleet
			}
			if watch {
				return a.watch(ctx, func(w io.Writer) error { return show(ctx, c, w, nil, f, names) })
			}
			if !f.fleet { // which the daemon knows by other means
				c.awaitSync(ctx)
			}
			return show(ctx, c, a.stdout, a.stderr, f, names)
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", asTable, "table, wide, json or name")
	cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave out the first line of the table")
	cmd.Flags().BoolVar(&f.all, "all", false, "also the containers that healthd leaves alone, with the reason")
	cmd.Flags().BoolVar(&f.fleet, "fleet", false, "the hosts of the fleet and their services; names are of these")
	cmd.Flags().BoolVar(&watch, "watch", false, "refresh until interrupted")
	return cmd
}

// statusForm is how a status is printed.
type statusForm struct {
	output    string
	noHeaders bool
	all       bool // also what healthd leaves alone
	fleet     bool // hosts and services in place of containers
}

// check says what is wrong with --all and --fleet. For --all engines list all their containers: not once a second.
func (f statusForm) check(names []string, watch bool) error {
	switch {
	case f.fleet && f.all:
		return usageError{errors.New("status takes --fleet or --all, not both")}
	case f.fleet && f.output == asName:
		return usageError{errors.New("status --fleet takes -o table, wide or json, not name")}
	case f.all && len(names) > 0:
		return usageError{errors.New("status takes names or --all, not both (healthd explain NAME tells of any container)")}
	case f.all && watch:
		return usageError{errors.New("status takes --all or --watch, not both")}
	}
	return nil
}

// showStatus prints the named containers, and then an error for each unknown name. Warnings go to
// warn, or if that is nil, below the table.
func (a *app) showStatus(ctx context.Context, c *client, w, warn io.Writer, f statusForm, names []string) error {
	all, failed, err := a.statusesFor(ctx, c, f, names)
	if err != nil {
		return err
	}
	if f.output == asJSON {
		encoder := json.NewEncoder(supervisor.Escaping{To: w})
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(all); err != nil {
			return err
		}
		return errors.Join(failed...)
	}
	api.DisplayNames(all)
	beside := w
	if warn != nil && (f.noHeaders || f.output == asName) { // a program reads w: rows only
		beside = warn
	}
	switch {
	case len(all) == 0 && len(names) == 0:
		_, err = fmt.Fprintln(beside, c.explainNone(ctx))
	case f.output == asName:
		err = writeNames(w, all)
	case len(all) > 0:
		err = writeStatuses(w, beside, all, f, a.colours, a.columns(), time.Now())
	}
	if err == nil && f.output != asName && (len(all) > 0 || len(names) == 0) {
		before := ""
		if warn == nil {
			warn, before = w, "\n"
		}
		err = writeWarnings(warn, before, c.warnings(ctx), all, a.columns())
	}
	if err != nil {
		return err
	}
	return errors.Join(failed...)
}

// statusesFor returns the containers to show. failed has an error for each name that is unknown, and for
// each engine that is away.
func (a *app) statusesFor(ctx context.Context, c *client, f statusForm, names []string) (all []api.Status, failed []error, err error) {
	if !f.all {
		return c.statuses(ctx, names)
	}
	u, err := c.unsupervised(ctx)
	if err != nil {
		return nil, nil, err
	}
	// Asked for last, the supervised ones have what healthd has taken in meanwhile.
	if all, _, err = c.statuses(ctx, nil); err != nil {
		return nil, nil, err
	}
	brief := a.onTerminal() && f.output != asJSON
	supervised := map[string]bool{}
	for _, s := range all {
		supervised[s.ID] = true
	}
	for _, b := range u.Containers {
		if !supervised[b.ID] {
			all = append(all, statusOf(b, brief))
		}
	}
	for _, note := range u.Notes {
		fmt.Fprintln(a.stderr, "warning:", line(note))
	}
	for _, away := range u.Away {
		failed = append(failed, fmt.Errorf("cannot list the containers of %s", line(away)))
	}
	return all, failed, nil
}

// unlimited is more columns than any text needs.
const unlimited = 1 << 20

// columns is how wide a line may be. What reads a pipe wants nothing cut.
func (a *app) columns() int {
	const least = 80
	if width, _, ok := a.size(); ok {
		return max(width, least)
	}
	return unlimited
}

// onTerminal says whether somebody looks at what is printed, and wants no more than fits.
func (a *app) onTerminal() bool { return a.columns() < unlimited }

// writeNames writes the names by which commands find the containers.
func writeNames(w io.Writer, all []api.Status) error {
	text := ""
	for _, s := range all {
		text += line(s.Name) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// explainNone says why there is no container to show.
func (c *client) explainNone(ctx context.Context) string {
	err := c.starting(ctx)
	if err == nil {
		return "no container matches a spec or has a healthd label"
	}
	if refused, ok := errors.AsType[*responseError](err); ok {
		return "no container is known yet: " + line(refused.message)
	}
	return "no container is known: " + line(err.Error())
}

// statuses returns the containers of those names, services and projects, or all; failed has an error
// for each unknown name.
func (c *client) statuses(ctx context.Context, names []string) (all []api.Status, failed []error, err error) {
	found, failed, err := c.targets(ctx, "show", names)
	return containersOf(found), failed, err
}
