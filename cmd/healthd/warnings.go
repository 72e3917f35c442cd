package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/api"
)

// warnings returns the daemon's warnings that concern no single container. It returns none
// on any error, for example from an older daemon: the containers can be shown all the same.
func (c *client) warnings(ctx context.Context) []string {
	var d api.Daemon
	if c.get(ctx, "/v1/daemon", nil, &d) != nil {
		return nil
	}
	return d.Warnings
}

// writeWarnings writes all warnings of the daemon and of the containers; on a terminal only the first few of the
// containers, so that they do not push the table out of sight. before comes first, if there are any.
func writeWarnings(w io.Writer, before string, daemon []string, all []api.Status, columns int) error {
	most := 5
	own := containerWarnings(all)
	if columns == unlimited {
		most = len(own)
	}
	more := len(own) - most
	text := ""
	for _, warning := range slices.Concat(daemon, own[:min(most, len(own))]) {
		text += strings.Join(wrap("warning: "+line(warning), columns-2), "\n  ") + "\n"
	}
	if more > 0 {
		text += fmt.Sprintf("and %d more: healthd explain NAME\n", more)
	}
	if text != "" {
		text = before + text
	}
	_, err := io.WriteString(w, text)
	return err
}

// containerWarnings returns the warnings of all these containers, each with its name.
func containerWarnings(all []api.Status) []string {
	var texts []string
	for _, s := range all {
		for _, warning := range s.Warnings {
			texts = append(texts, s.Name+": "+warning)
		}
	}
	return texts
}

// warningsTimeout is how long healthd check waits for a daemon's warnings.
const warningsTimeout = 2 * time.Second

// printContainerWarnings prints the warnings of a running daemon. Without one it prints
// nothing: a configuration can be checked anywhere.
func (a *app) printContainerWarnings(ctx context.Context, c *client) {
	all, _, err := c.statuses(ctx, nil)
	if err != nil {
		return
	}
	api.DisplayNames(all)
	a.printWarnings(containerWarnings(all))
}

func (a *app) printWarnings(texts []string) {
	for _, text := range texts {
		fmt.Fprintln(a.stderr, "warning:", line(text))
	}
}
