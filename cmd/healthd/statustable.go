package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// writeStatuses writes the table, and below it, or beside it, what fits into no column.
func writeStatuses(w, beside io.Writer, all []api.Status, f statusForm, colours bool, columns int, now time.Time) error {
	wide := f.output == asWide
	t := table{header: statusHeader(wide), colours: colours, bare: f.noHeaders}
	if !wide { // which tells the rest
		const service, startup = 1, 4 // as it is without the one before
		t.width, t.flexible, t.drop = columns, []flexible{{column: service, least: 8}, {column: 0, least: 12}}, []int{service, startup}
	}
	for _, s := range all {
		t.add(statusRow(s, wide, now)...)
	}
	notes := append(remarks(all, columns, now), observedNote(all, columns), managedNote(all, columns))
	if !wide {
		notes = append(notes, engineNote(all, columns))
	}
	below := ""
	for _, text := range notes {
		if text != "" {
			below += "\n" + strings.Join(wrap(text, columns-2), "\n  ")
		}
	}
	if below != "" {
		below += "\n"
	}
	if beside == w {
		_, err := io.WriteString(w, t.String()+below)
		return err
	}
	if _, err := io.WriteString(w, t.String()); err != nil {
		return err
	}
	_, err := io.WriteString(beside, strings.TrimPrefix(below, "\n"))
	return err
}

func statusHeader(wide bool) []string {
	h := []string{"NAME", "SERVICE", "STATE", "READY", "RESTARTS", "STARTUP", "LIVENESS", "READINESS", "SINCE"}
	if wide {
		h = append(h, "GATES", "PHASE", "POLICY", "ENGINE-POLICY", "SPEC", "GROUP", "ADDRESS", "RUNTIME", "ID", "IMAGE", "REASON")
	}
	return h
}

func statusRow(s api.Status, wide bool, now time.Time) []cell {
	state, since := stateOf(s)
	row := []cell{
		{text: line(s.Name)}, {text: orDash(s.Service)}, state, readyCell(s), {text: fmt.Sprint(s.RestartCount)},
		probeCell(s, "startup"), probeCell(s, "liveness"), readinessCell(s), {text: "-"},
	}
	if !since.IsZero() {
		row[len(row)-1].text = formatAge(now.Sub(since))
	}
	if wide {
		id := shortID(s.ID)
		for _, text := range []string{openGates(s), string(s.Phase), string(s.RestartPolicy), s.EnginePolicy, s.Spec, s.Group, s.Address, s.Runtime, id, s.Image, readyCondition(s).Reason} {
			row = append(row, cell{text: orDash(text)})
		}
	}
	return row
}

// shortID shortens an ID, but not what stands before the engine's own.
func shortID(id string) string {
	const most = 12
	own := strings.LastIndexByte(id, ':') + 1
	return id[:min(own+most, len(id))]
}

// orDash returns "-" for an empty text.
func orDash(s string) string {
	if s = line(s); s == "" {
		return "-"
	}
	return s
}

// stateOf returns a container's state in one word, and since when. A hold is appended, as
// kubectl appends SchedulingDisabled to a node's status.
func stateOf(s api.Status) (cell, time.Time) {
	state, since := stateWithoutHold(s)
	if s.Held && state.text != core.WaitHeld {
		return cell{state.text + "," + core.WaitHeld, cmp.Or(state.colour, yellow)}, since
	}
	return state, since
}

func stateWithoutHold(s api.Status) (cell, time.Time) {
	switch {
	case s.Unsupervised != "":
		return cell{"unsupervised", ""}, time.Time{}
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
	case s.Phase == core.PhaseUnknown:
		return cell{string(s.Phase), yellow}, time.Time{} // it may have ended
	}
	switch readyCondition(s).Reason {
	case core.NotReadyPaused:
		return cell{"Paused", yellow}, s.State.Running.StartedAt
	case core.NotReadyPostStart:
		return cell{"PostStart", yellow}, s.State.Running.StartedAt
	}
	return cell{"Running", ""}, s.State.Running.StartedAt
}

func readyCell(s api.Status) cell {
	if s.Unsupervised != "" {
		return cell{"-", ""}
	}
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

// openGates says how many of a container's readiness gates are True; it is empty when the
// container has none.
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

// readinessCell shows the readiness probe, or when that has succeeded, the gates.
func readinessCell(s api.Status) cell {
	if readyCondition(s).Reason == core.NotReadyGates {
		return cell{"gates " + openGates(s), yellow}
	}
	return probeCell(s, "readiness")
}

// alive says whether a container has a process that can be probed.
func alive(s api.Status) bool {
	if w := s.State.Waiting; w != nil && waitsForOthers(w) {
		return readyCondition(s).Reason != core.NotReadyNotRun
	}
	return s.State.Running != nil || s.Draining
}

// probeCell says how a probe stands and, on its way to another verdict, how far it
// has got. Of a container that has ended just what ended it is left to say. A verdict
// may be older than healthd: then no outcome led to it.
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
	case p.OnHold && p.Result == "Failure":
		return cell{"failed", red}
	case p.OnHold && p.Result == "Success":
		return cell{"ok", green}
	case p.Outcome == "Failure":
		return cell{"fail " + run, yellow}
	case p.Outcome == "Unknown" && p.LastProbeTime != nil:
		return cell{"unknown", yellow}
	case p.Outcome == "Unknown":
		return cell{"pending", ""}
	case p.Result != "Success":
		return cell{"ok " + run, yellow}
	}
	return cell{"ok", green}
}
