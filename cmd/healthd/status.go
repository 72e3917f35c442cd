package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
)

// The forms that status and events are printed in.
const (
	asTable = "table"
	asWide  = "wide"
	asJSON  = "json"
)

func (a *app) statusCommand() *cobra.Command {
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:               "status [NAME…]",
		Short:             "Show the containers and their health",
		Long:              "Show the health of all containers that healthd supervises, or of those named.",
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := oneOf("output", output, asTable, asWide, asJSON); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			show := func(w io.Writer) error { return a.showStatus(ctx, c, w, output, names) }
			if watch {
				return a.watch(ctx, show)
			}
			return show(a.stdout)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", asTable, "table, wide or json")
	cmd.Flags().BoolVar(&watch, "watch", false, "refresh until interrupted")
	return cmd
}

// showStatus prints the named containers, and then an error for each unknown name.
func (a *app) showStatus(ctx context.Context, c *client, w io.Writer, output string, names []string) error {
	all, failed, err := c.statuses(ctx, names)
	if err != nil {
		return err
	}
	switch {
	case output == asJSON:
		encoder := json.NewEncoder(escaping{w})
		encoder.SetIndent("", "  ")
		err = encoder.Encode(all)
	case len(all) > 0:
		api.DisplayNames(all)
		if err = writeStatuses(w, all, output == asWide, a.colours, a.columns(), time.Now()); err == nil {
			err = writeWarnings(w, c.warnings(ctx), all, a.columns())
		}
	case len(names) == 0:
		_, err = fmt.Fprintln(w, c.explainNone(ctx))
	}
	if err != nil {
		return err
	}
	return errors.Join(failed...)
}

// columns is how wide a table may be.
func (a *app) columns() int {
	const unlessTerminal, least = 100, 80
	if width, _, ok := a.size(); ok {
		return max(width, least)
	}
	return unlessTerminal
}

// explainNone says why there is no container to show.
func (c *client) explainNone(ctx context.Context) string {
	answer, err := c.send(ctx, http.MethodGet, "/readyz", nil, "", "text/plain")
	if err == nil {
		answer.Body.Close()
		return "no container matches a spec or has a healthd label"
	}
	if refused, ok := errors.AsType[*responseError](err); ok {
		return "no container is known yet: " + line(refused.message)
	}
	return "no container is known: " + line(err.Error())
}

// statuses returns the containers of those names, or all; failed has an error for each
// unknown name.
func (c *client) statuses(ctx context.Context, names []string) (all []api.Status, failed []error, err error) {
	if len(names) == 0 {
		err = c.get(ctx, "/v1/containers", nil, &all)
		return all, nil, err
	}
	all = []api.Status{}
	for _, name := range names {
		var s api.Status
		err := c.get(ctx, containerPath(name), nil, &s)
		if _, refused := errors.AsType[*responseError](err); err != nil && !refused {
			return nil, nil, err
		}
		if err != nil {
			failed = append(failed, c.requestError(ctx, "show", name, err))
			continue
		}
		all = append(all, s)
	}
	return all, failed, nil
}
