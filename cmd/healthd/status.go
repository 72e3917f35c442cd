package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
)

func (a *app) statusCommand() *cobra.Command {
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:               "status [NAME…]",
		Short:             "Show the containers and their health",
		Long:              "Show the containers that healthd supervises, or just those named, and their health.",
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
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again and again until interrupted")
	return cmd
}

// showStatus shows the containers that there are, and then says which of those
// named there are not.
func (a *app) showStatus(ctx context.Context, c *client, w io.Writer, output string, names []string) error {
	all, failed, err := c.statuses(ctx, names)
	if err != nil {
		return err
	}
	switch {
	case output == asJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(all)
	case len(all) > 0:
		err = writeStatuses(w, all, output == asWide, a.colours, a.columns(), time.Now())
	case len(names) == 0:
		_, err = fmt.Fprintln(w, c.whyNone(ctx))
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

// whyNone says why there is nothing to show.
func (c *client) whyNone(ctx context.Context) string {
	answer, err := c.send(ctx, http.MethodGet, "/readyz", nil, "", "text/plain")
	if err == nil {
		answer.Body.Close()
		return "no container matches a spec or carries a probe label"
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return "no container is known yet: " + line(refused.message)
	}
	return "no container is known: " + line(err.Error())
}

// statuses returns the containers of those names, or all; failed says which names
// nobody has.
func (c *client) statuses(ctx context.Context, names []string) (all []api.Status, failed []error, err error) {
	if len(names) == 0 {
		err = c.get(ctx, "/v1/containers", nil, &all)
		return all, nil, err
	}
	all = []api.Status{}
	for _, name := range names {
		var s api.Status
		err := c.get(ctx, containerPath(name), nil, &s)
		if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
			return nil, nil, err
		}
		if err != nil {
			failed = append(failed, c.named(ctx, "show", name, err))
			continue
		}
		all = append(all, s)
	}
	return all, failed, nil
}

// writeStatuses writes the table and below it what is wrong with labels, which no
// column could hold.
func writeStatuses(w io.Writer, all []api.Status, wide, colours bool, columns int, now time.Time) error {
	t := table{header: statusHeader(wide), colours: colours}
	if !wide {
		t.width, t.flexible = columns, []flexible{{column: 1, least: 8}, {column: 0, least: 12}}
	}
	invalid := ""
	for _, s := range all {
		t.add(statusRow(s, wide, now)...)
		if s.Invalid != "" {
			text := fmt.Sprintf("%s is invalid, it is not supervised: %s", s.Name, line(s.Invalid))
			invalid += "\n" + strings.Join(wrap(text, columns-2), "\n  ")
		}
	}
	if invalid != "" {
		invalid += "\n"
	}
	_, err := io.WriteString(w, t.String()+invalid)
	return err
}

func statusHeader(wide bool) []string {
	h := []string{"NAME", "SERVICE", "STATE", "READY", "RESTARTS", "STARTUP", "LIVENESS", "READINESS", "SINCE"}
	if wide {
		h = append(h, "GATES", "PHASE", "POLICY", "SPEC", "GROUP", "RUNTIME", "ID", "IMAGE", "REASON")
	}
	return h
}

func statusRow(s api.Status, wide bool, now time.Time) []cell {
	const shortID = 12
	state, since := stateOf(s)
	row := []cell{
		{text: s.Name}, {text: or(s.Service)}, state, readyCell(s), {text: fmt.Sprint(s.RestartCount)},
		probeCell(s, "startup"), probeCell(s, "liveness"), readinessCell(s), {text: "-"},
	}
	if !since.IsZero() {
		row[len(row)-1].text = age(now.Sub(since))
	}
	if wide {
		id := s.ID[:min(shortID, len(s.ID))]
		for _, text := range []string{openGates(s), string(s.Phase), string(s.RestartPolicy), s.Spec, s.Group, s.Runtime, id, s.Image, readyCondition(s).Reason} {
			row = append(row, cell{text: or(text)})
		}
	}
	return row
}

// or is what stands for a text that is empty.
func or(s string) string {
	if s = line(s); s == "" {
		return "-"
	}
	return s
}

// stateOf is a container's state in one word, and since when.
func stateOf(s api.Status) (cell, time.Time) {
	switch {
	case s.Invalid != "":
		return cell{"Invalid", red}, time.Time{}
	case s.State.Waiting != nil:
		return cell{s.State.Waiting.Reason, yellow}, time.Time{}
	case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
		return cell{s.State.Terminated.Reason, ""}, s.State.Terminated.FinishedAt
	case s.State.Terminated != nil:
		return cell{s.State.Terminated.Reason, red}, s.State.Terminated.FinishedAt
	case s.State.Running == nil:
		return cell{string(s.Phase), ""}, time.Time{}
	case s.Phase == "Unknown":
		return cell{string(s.Phase), yellow}, s.State.Running.StartedAt
	}
	switch readyCondition(s).Reason {
	case supervisor.NotReadyPaused:
		return cell{"Paused", yellow}, s.State.Running.StartedAt
	case supervisor.NotReadyPostStart:
		return cell{"PostStart", yellow}, s.State.Running.StartedAt
	}
	return cell{"Running", ""}, s.State.Running.StartedAt
}

func readyCell(s api.Status) cell {
	if s.Ready {
		return cell{"yes", green}
	}
	return cell{"no", red}
}

// readyCondition is the condition that says whether and why a container is ready.
func readyCondition(s api.Status) api.Condition {
	for _, c := range s.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return api.Condition{}
}

// openGates is how many of a container's readiness gates are True, empty when it has
// none.
func openGates(s api.Status) string {
	open, gates := 0, s.Gates()
	if len(gates) == 0 {
		return ""
	}
	for _, g := range gates {
		if g.Status == "True" {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(gates))
}

// readinessCell tells what holds readiness back: the probe, and else the gates.
func readinessCell(s api.Status) cell {
	if readyCondition(s).Reason == supervisor.NotReadyGates {
		return cell{"gates " + openGates(s), yellow}
	}
	return probeCell(s, "readiness")
}

// alive says whether a container has a process, of which probes can say something.
func alive(s api.Status) bool { return s.State.Running != nil || s.Draining }

// probeCell says how a probe stands and, on its way to another verdict, how far it
// has got. Of a container that has ended just what ended it is left to say.
func probeCell(s api.Status, probe string) cell {
	p, ok := s.Probes[probe]
	run := fmt.Sprintf("%d/%d", p.Run, p.Threshold)
	switch {
	case !ok:
		return cell{"-", ""}
	case p.Outcome == "Failure" && p.Result == "Failure" && (p.OnHold || p.Run >= p.Threshold):
		return cell{"failed", red}
	case !alive(s):
		return cell{"-", ""}
	case p.Outcome == "Failure":
		return cell{"fail " + run, yellow}
	case p.Outcome == "Unknown":
		return cell{"pending", ""}
	case p.Result != "Success":
		return cell{"ok " + run, yellow}
	}
	return cell{"ok", green}
}
