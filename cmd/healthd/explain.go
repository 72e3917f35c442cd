package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain NAME",
		Short: "Say why a container is seen as it is, and what happens next",
		Long: "Say which spec matched a container and why, where each setting comes from, how each probe\n" +
			"stands against its threshold, what happened last, and what happens next and when.",
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			var e api.Explanation
			if err := c.get(ctx, containerPath(args[0], "explain"), nil, &e); err != nil {
				return c.named(ctx, "explain", args[0], err)
			}
			return writeExplanation(a.stdout, e, time.Now())
		},
	}
}

func writeExplanation(w io.Writer, e api.Explanation, now time.Time) error {
	var b strings.Builder
	s := e.Status
	state, since := stateOf(s)
	fmt.Fprintf(&b, "%s (%s, %s)\n", line(s.Name), s.Runtime, line(s.Image))
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s"+format+"\n", append([]any{name}, args...)...)
	}
	field("state", "%s", stateText(s, state.text, since, now))
	field("ready", "%s", readyText(s))
	if s.Held {
		field("held", "%s", heldText(s, now))
	}
	field("spec", "%s", specText(e))
	if s.Invalid == "" {
		field("service", "%s", or(s.Service))
		field("restarts", "%d (policy %s)", s.RestartCount, s.RestartPolicy)
	}
	for _, note := range e.Notes {
		field("note", "%s", line(note))
	}
	for _, warning := range s.Warnings {
		field("warning", "%s", line(warning))
	}
	writeProbes(&b, s, now)
	writeGates(&b, s.Gates())
	writeValues(&b, e.Values)
	writeLast(&b, e.Events, now)
	writeNext(&b, e.Next, now)
	_, err := io.WriteString(w, b.String())
	return err
}

func stateText(s api.Status, state string, since, now time.Time) string {
	text := state
	if !since.IsZero() {
		text += fmt.Sprintf(" for %s, since %s", age(now.Sub(since)), moment(since))
	}
	if t := s.State.Terminated; t != nil {
		text += fmt.Sprintf(", exit code %d", t.ExitCode)
	}
	if wait := s.State.Waiting; wait != nil && wait.Message != "" {
		text += ": " + line(wait.Message)
	}
	if t := s.LastState.Terminated; t != nil {
		text += fmt.Sprintf("; the run before ended with %s (exit code %d) at %s", t.Reason, t.ExitCode, moment(t.FinishedAt))
	}
	return text
}

func readyText(s api.Status) string {
	if s.Ready {
		return "yes"
	}
	c := readyCondition(s)
	text := "no: " + c.Reason
	if c.LastTransitionTime != nil {
		text += " since " + moment(*c.LastTransitionTime)
	}
	return text
}

func specText(e api.Explanation) string {
	switch {
	case e.Status.Invalid != "":
		return "none, as its labels are invalid: " + line(e.Status.Invalid)
	case e.Status.Spec == "":
		return "none; " + line(e.MatchedBy)
	}
	return e.Status.Spec + ", by " + line(e.MatchedBy)
}

func writeProbes(b *strings.Builder, s api.Status, now time.Time) {
	for t := range supervisor.ProbeType(supervisor.NumProbes) {
		p, ok := s.Probes[t.String()]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "\n%s probe: %s\n", t, probeText(p, alive(s)))
		if p.LastProbeTime != nil {
			fmt.Fprintf(b, "  last asked %s ago, took %s\n", age(now.Sub(*p.LastProbeTime)), latency(p.LatencySeconds))
			writeOutput(b, p.Output)
		}
	}
}

// probeText says how a probe stands. Every probe of a container that does not run
// counts as failed, which would only puzzle here.
func probeText(p api.ProbeStatus, alive bool) string {
	const noProcess = "not asked, as the container does not run"
	switch {
	case !alive && p.LastProbeTime == nil:
		return noProcess
	case !alive && p.OnHold:
		return noProcess + "; verdict on the last run: " + p.Outcome
	case !alive:
		return noProcess + "; at the end of the last run: " + inARow(p)
	case p.LastProbeTime == nil && p.OnHold:
		return p.Result + ", not asked in this run"
	case p.LastProbeTime == nil:
		return p.Result + ", not asked yet in this run"
	case p.OnHold:
		return p.Result + ", not asked again in this run"
	}
	return p.Result + ", " + inARow(p)
}

// inARow says how often the last outcome came, and how often it must.
func inARow(p api.ProbeStatus) string {
	text := ""
	switch {
	case p.Outcome == "Unknown":
		return "no answer that counts"
	case p.Outcome == "Failure":
		text = count(p.Run, "failure")
	case p.Run == 1:
		text = "1 success"
	default:
		text = fmt.Sprintf("%d successes", p.Run)
	}
	return fmt.Sprintf("%s in a row, threshold %d", text, p.Threshold)
}

// writeOutput writes what a probe said below it, and keeps it apart from what
// healthd says.
func writeOutput(w io.Writer, output string) {
	output = strings.TrimSpace(printable(output))
	if output == "" {
		return
	}
	for l := range strings.SplitSeq(output, "\n") {
		fmt.Fprintln(w, "  | "+l)
	}
}

func writeGates(b *strings.Builder, gates []api.Condition) {
	if len(gates) == 0 {
		return
	}
	b.WriteString("\nreadiness gates:\n")
	t := table{header: []string{"  GATE", "STATUS", "SINCE"}}
	for _, g := range gates {
		since := line(g.Message)
		if g.LastTransitionTime != nil {
			since = moment(*g.LastTransitionTime)
		}
		t.add(cell{text: "  " + line(g.Type)}, cell{text: g.Status}, cell{text: since})
	}
	b.WriteString(t.String())
}

func writeValues(b *strings.Builder, values []api.Value) {
	if len(values) == 0 {
		return
	}
	b.WriteString("\nsettings:\n")
	t := table{header: []string{"  SETTING", "VALUE", "ORIGIN"}}
	for _, v := range values {
		t.add(cell{text: "  " + line(v.Path)}, cell{text: line(v.Value)}, cell{text: line(v.Origin)})
	}
	b.WriteString(t.String())
}

func writeLast(b *strings.Builder, events []supervisor.Event, now time.Time) {
	if len(events) == 0 {
		return
	}
	b.WriteString("\nlast transitions:\n")
	t := table{header: []string{"  TIME", "AGO", "REASON", "MESSAGE"}}
	for _, ev := range events {
		t.add(cell{text: "  " + moment(ev.Time)}, cell{text: age(now.Sub(ev.Time))}, cell{text: ev.Reason}, cell{text: line(ev.Message)})
	}
	b.WriteString(t.String())
}

func writeNext(b *strings.Builder, next []api.Next, now time.Time) {
	b.WriteString("\nnext:\n")
	for _, n := range next {
		b.WriteString("  ")
		if !n.At.IsZero() {
			fmt.Fprintf(b, "%s (in %s): ", moment(n.At), max(0, n.At.Sub(now)).Round(100*time.Millisecond))
		}
		b.WriteString(line(n.What) + "\n")
	}
}

// moment writes a time as people at this machine say it.
func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
