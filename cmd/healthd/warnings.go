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

// warnings returns what the daemon warns of beside single containers. One that does
// not know the question, as it is older than this program, warns of nothing; and what
// else goes wrong is no reason not to show the containers.
func (c *client) warnings(ctx context.Context) []string {
	var d api.Daemon
	if c.get(ctx, "/v1/daemon", nil, &d) != nil {
		return nil
	}
	return d.Warnings
}

// writeWarnings writes all warnings of the daemon, and of those of the containers as
// many as do not hide the table.
func writeWarnings(w io.Writer, daemon []string, all []api.Status, columns int) error {
	const most = 5
	own := containerWarnings(all)
	more := len(own) - most
	text := ""
	for _, warning := range slices.Concat(daemon, own[:min(most, len(own))]) {
		text += "\n" + strings.Join(wrap("warning: "+line(warning), columns-2), "\n  ")
	}
	if more > 0 {
		text += fmt.Sprintf("\nand %d more: healthd explain NAME", more)
	}
	if text != "" {
		text += "\n"
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

// checkPatience is how long a check waits for a daemon, which nobody asked for.
const checkPatience = 2 * time.Second

// warnOfContainers prints what a daemon warns of, if one answers: who checks a
// configuration need not have one.
func (a *app) warnOfContainers(ctx context.Context, c *client) {
	all, _, err := c.statuses(ctx, nil)
	if err != nil {
		return
	}
	for _, warning := range containerWarnings(all) {
		fmt.Fprintln(a.stderr, "warning:", line(warning))
	}
}
