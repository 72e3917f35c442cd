package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain NAME",
		Short: "Show why a container is in its state, and what happens next",
		Long: "Show which spec a container has and why, the origin of each setting, each probe against its\n" +
			"threshold, the last events, and what happens next and when. Of a container that healthd leaves\n" +
			"alone, show why.",
		Example:           "  healthd explain shop-web-1",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			c.awaitSync(ctx)
			var e api.Explanation
			if err := c.get(ctx, containerPath(args[0], "explain"), nil, &e); err != nil {
				if refused, ok := errors.AsType[*responseError](err); ok && refused.status == http.StatusNotFound {
					return a.explainOther(ctx, c, args[0], err)
				}
				return c.requestError(ctx, "explain", args[0], err)
			}
			if err := writeExplanation(a.stdout, e, a.columns(), time.Now()); err != nil {
				return err
			}
			return writeWarnings(a.stdout, "\n", c.warnings(ctx), nil, a.columns())
		},
	}
}

// page is a text whose lines are at most columns wide.
type page struct {
	strings.Builder
	columns int
}

// write writes a text after head, and continues it below, indented.
func (p *page) write(head, text string, indent int) {
	below := "\n" + strings.Repeat(" ", indent)
	p.WriteString(head + strings.Join(wrap(text, p.columns-max(indent, len(head))), below) + "\n")
}

func (p *page) field(name, format string, args ...any) {
	head := fmt.Sprintf("  %-10s", name)
	p.write(head, fmt.Sprintf(format, args...), len(head))
}

// table writes a table whose columns are those of header. The flexible ones wrap.
func (p *page) table(header []string, flexible []flexible, rows [][]cell) {
	for i := range flexible {
		flexible[i].wraps = true
	}
	t := table{header: header, indent: "  ", width: p.columns, flexible: flexible, rows: rows}
	p.WriteString(t.String())
}

func writeExplanation(w io.Writer, e api.Explanation, columns int, now time.Time) error {
	p := &page{columns: columns}
	s := e.Status
	state, since := stateOf(s)
	p.write("", fmt.Sprintf("%s (%s, %s)", line(s.Name), s.Runtime, line(s.Image)), 2)
	p.field("state", "%s", stateText(s, state.text, since, now))
	p.field("ready", "%s", readyText(s))
	if s.Held {
		p.field("held", "%s", heldText(s, now))
	}
	p.field("spec", "%s", specText(e))
	if s.Invalid == "" && s.Unseen == "" {
		p.field("service", "%s", orDash(s.Service))
		p.field("restarts", "%d (%s)", s.RestartCount, policyText(s))
	}
	writeRemarks(p, e)
	writeProbes(p, s, now)
	writeGates(p, s.Gates())
	writeNext(p, e.Next, now)
	writeLast(p, e.Events, now)
	writeValues(p, e.Values)
	_, err := io.WriteString(w, p.String())
	return err
}

// writeSpecification writes the part of an explanation that follows from the configuration and the labels.
func writeSpecification(w io.Writer, e api.Explanation, columns int) error {
	p := &page{columns: columns}
	s := e.Status
	p.write("", fmt.Sprintf("%s (%s, %s)", line(s.Name), s.Runtime, line(s.Image)), 2)
	p.field("spec", "%s", specText(e))
	if s.Invalid == "" {
		p.field("service", "%s", orDash(s.Service))
		p.field("group", "%s", orDash(s.Group))
		p.field("restarts", "%s", policyText(s))
	}
	writeRemarks(p, e)
	writeValues(p, e.Values)
	_, err := io.WriteString(w, p.String())
	return err
}

// writeRemarks writes what changes the meaning of the settings, and what is probably a mistake.
func writeRemarks(p *page, e api.Explanation) {
	for _, note := range e.Notes {
		p.field("note", "%s", line(note))
	}
	for _, warning := range e.Status.Warnings {
		p.field("warning", "%s", line(warning))
	}
}

func stateText(s api.Status, state string, since, now time.Time) string {
	text := state
	switch {
	case !since.IsZero():
		text += fmt.Sprintf(" for %s, since %s", formatAge(now.Sub(since)), formatTime(since))
	case s.Phase == core.PhaseUnknown && s.State.Running != nil:
		text += ": when its engine was last reached, it ran since " + formatTime(s.State.Running.StartedAt)
	}
	if t := s.State.Terminated; t != nil {
		text += fmt.Sprintf(", exit code %d", t.ExitCode)
	}
	if wait := s.State.Waiting; wait != nil && wait.Message != "" {
		text += ": " + line(wait.Message)
	}
	if t := s.LastState.Terminated; t != nil {
		text += fmt.Sprintf("; the run before ended with %s (exit code %d) at %s", t.Reason, t.ExitCode, formatTime(t.FinishedAt))
	}
	return text
}

// policyText says whose restart policy applies.
func policyText(s api.Status) string {
	if s.ManagedBy != "" {
		return "left to " + line(s.ManagedBy)
	}
	if s.EnginePolicy == "" {
		return fmt.Sprintf("policy %s", s.RestartPolicy)
	}
	return fmt.Sprintf("policy %s; after exits the engine's own, %s", s.RestartPolicy, line(s.EnginePolicy))
}

func readyText(s api.Status) string {
	if s.Ready {
		return "yes"
	}
	c := readyCondition(s)
	text := "no: " + cmp.Or(c.Reason, string(s.Phase))
	if c.Reason == core.NotReadyNoAddress { // of others the lines below tell
		text += " (" + line(c.Message) + ")"
	}
	if c.LastTransitionTime != nil {
		text += " since " + formatTime(*c.LastTransitionTime)
	}
	return text
}

func specText(e api.Explanation) string {
	switch {
	case e.Status.Invalid != "":
		return "none: " + line(e.Status.Invalid)
	case e.Status.Spec == "":
		return "none; " + line(e.MatchedBy)
	}
	return e.Status.Spec + ", by " + line(e.MatchedBy)
}

func writeProbes(page *page, s api.Status, now time.Time) {
	for t := range core.ProbeType(core.NumProbes) {
		p, ok := s.Probes[t.String()]
		if !ok {
			continue
		}
		page.WriteByte('\n')
		page.write("", fmt.Sprintf("%s probe: %s", t, probeText(p, alive(s))), 2)
		if p.LastProbeTime != nil {
			fmt.Fprintf(page, "  last probed %s ago, took %s\n", formatAge(now.Sub(*p.LastProbeTime)), formatLatency(p.LatencySeconds))
			writeOutput(page, p.Output, page.columns)
		}
	}
}

// probeText describes a probe's state. For a container that does not run it leaves the
// result out: it is always Failure then.
func probeText(p api.ProbeStatus, alive bool) string {
	const noProcess = "not probed, the container does not run"
	switch {
	case !alive && p.LastProbeTime == nil:
		return noProcess
	case !alive && p.OnHold:
		return noProcess + "; verdict on the last run: " + p.Outcome
	case !alive:
		return noProcess + "; at the end of the last run: " + outcomeCount(p)
	case p.LastProbeTime == nil && p.OnHold:
		return p.Result + ", not probed in this run"
	case p.LastProbeTime == nil:
		return p.Result + ", not probed yet in this run"
	case p.OnHold:
		return p.Result + ", not probed again in this run"
	case p.Outcome == "Unknown" && p.Run > 0:
		return outcomeCount(p) + "; its verdict stays " + p.Result
	}
	return p.Result + ", " + outcomeCount(p)
}

// outcomeCount says how often in a row the last outcome came, and its threshold.
func outcomeCount(p api.ProbeStatus) string {
	text := ""
	switch {
	case p.Outcome == "Unknown" && p.Run == 0:
		return "no outcome yet"
	case p.Outcome == "Unknown":
		return fmt.Sprintf("Unknown %s in a row, since %s", times(p.Run), formatTime(p.Since))
	case p.Outcome == "Failure":
		text = plural(p.Run, "failure")
	case p.Run == 1:
		text = "1 success"
	default:
		text = fmt.Sprintf("%d successes", p.Run)
	}
	return fmt.Sprintf("%s in a row, threshold %d", text, p.Threshold)
}

// times says how often.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// writeOutput writes what a probe said below it, and keeps it apart from what
// healthd says. Its lines are broken where they are wider than columns, unless that
// is 0.
func writeOutput(w io.Writer, output string, columns int) {
	const bar = "  | "
	output = strings.TrimSpace(printable(output))
	if output == "" {
		return
	}
	for l := range strings.SplitSeq(output, "\n") {
		pieces := []string{l}
		if columns > 0 {
			pieces = chop(l, columns-len(bar))
		}
		for _, piece := range pieces {
			fmt.Fprintln(w, strings.TrimRight(bar+piece, " "))
		}
	}
}

func writeGates(p *page, gates []api.Condition) {
	if len(gates) == 0 {
		return
	}
	p.WriteString("\nreadiness gates:\n")
	var rows [][]cell
	for _, g := range gates {
		since := line(g.Message)
		if g.LastTransitionTime != nil {
			since = formatTime(*g.LastTransitionTime)
		}
		rows = append(rows, []cell{{text: line(g.Type)}, {text: g.Status}, {text: since}})
	}
	p.table([]string{"GATE", "STATUS", "SINCE"}, []flexible{{column: 0, least: 20}, {column: 2, least: 20}}, rows)
}

func writeValues(p *page, values []api.Value) {
	if len(values) == 0 {
		return
	}
	p.WriteString("\nsettings:\n")
	var rows [][]cell
	for _, v := range values {
		rows = append(rows, []cell{{text: line(v.Path)}, {text: line(v.Value)}, {text: line(v.Origin)}})
	}
	p.table([]string{"SETTING", "VALUE", "ORIGIN"}, []flexible{{column: 1, least: 20}, {column: 2, least: 20}, {column: 0, least: 20}}, rows)
}

func writeLast(p *page, events []core.Event, now time.Time) {
	if len(events) == 0 {
		return
	}
	p.WriteString("\nlast transitions:\n")
	var rows [][]cell
	for _, ev := range events {
		rows = append(rows, []cell{{text: formatTime(ev.Time)}, {text: formatAge(now.Sub(ev.Time))}, {text: ev.Reason}, {text: line(ev.Message)}})
	}
	p.table([]string{"TIME", "AGO", "REASON", "MESSAGE"}, []flexible{{column: 3, least: 20}}, rows)
}

func writeNext(p *page, next []api.Next, now time.Time) {
	p.WriteString("\nnext:\n")
	for _, n := range next {
		text := line(n.What)
		if !n.At.IsZero() {
			text = fmt.Sprintf("%s (in %s): %s", formatTime(n.At), max(0, n.At.Sub(now)).Round(100*time.Millisecond), text)
		}
		p.write("  ", text, 4)
	}
}

// formatTime formats a time in the machine's time zone.
func formatTime(t time.Time) string { return t.Local().Format(timeLayout) }

const timeLayout = "2006-01-02 15:04:05"
