package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"healthd/supervisor"
)

// writeFlightRecord writes a record as a page, what tells most first. all are the records that its
// container has.
func writeFlightRecord(w io.Writer, r *supervisor.FlightRecord, all []supervisor.RecordInfo, columns int, now time.Time) error {
	p := &page{columns: columns}
	p.write("", fmt.Sprintf("%s (%s, %s), run %d: %s", line(r.Container), r.Runtime, line(r.Image), r.Run, line(r.Message)), 2)
	p.field("when", "%s, %s ago", formatTime(r.Time), formatAge(now.Sub(r.Time)))
	p.field("ran", "%s, after %s", formatAge(seconds(r.RanSeconds)), plural(r.Restarts, "restart"))
	p.field("then", "%s", whatFollowed(r))
	if u := r.Usage; u.Error == "" {
		p.field("memory", "%s", memoryText(u))
		p.field("CPU", "%s", cpuText(u))
	}
	writeRecordedCommand(p, r.Command)
	writeRecordedProbes(p, r)
	writeRecordedLog(p, r.Log)
	writeRecordedProcesses(p, r.Processes)
	writeRecordedEvents(p, r)
	writeInspection(p, r)
	writeOtherRecords(p, r, all)
	_, err := io.WriteString(w, p.String())
	return err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// whatFollowed says on which side of the run's end the record was made.
func whatFollowed(r *supervisor.FlightRecord) string {
	switch r.Cause {
	case supervisor.RecordCrash, supervisor.RecordOOM:
		return "nothing could be asked inside: the container had ended, at " + formatTime(r.FinishedAt) + " by the engine's clock"
	}
	return "healthd stopped it after this record"
}

func memoryText(u supervisor.RecordedUsage) string {
	if u.MemoryLimitBytes == 0 {
		return formatBytes(u.MemoryBytes) + ", no limit"
	}
	return fmt.Sprintf("%s of %s (%d %%)", formatBytes(u.MemoryBytes), formatBytes(u.MemoryLimitBytes), 100*u.MemoryBytes/u.MemoryLimitBytes)
}

func cpuText(u supervisor.RecordedUsage) string {
	text := fmt.Sprintf("%.2f CPUs in the moments before, %s in this run", u.CPUCores, seconds(u.CPUSeconds).Round(10*time.Millisecond))
	if u.ThrottledSeconds > 0 {
		text += fmt.Sprintf(", held up by its limit for %s", seconds(u.ThrottledSeconds).Round(10*time.Millisecond))
	}
	return text
}

func formatBytes(n int) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, prefix := float64(n)/unit, "K"
	for _, next := range []string{"M", "G", "T"} {
		if size < unit {
			break
		}
		size, prefix = size/unit, next
	}
	return fmt.Sprintf("%.1f %siB", size, prefix)
}

func writeRecordedCommand(p *page, c supervisor.RecordedCommand) {
	if len(c.Command) == 0 {
		return
	}
	ended := fmt.Sprintf("exit code %d", c.ExitCode)
	switch {
	case c.Error != "":
		ended = line(c.Error)
	case c.TimedOut:
		ended = "it did not end in time, and was killed"
	}
	p.WriteByte('\n')
	p.write("", fmt.Sprintf("%s said (%s):", line(strings.Join(c.Command, " ")), ended), 2)
	writeText(p, c.Output)
	if c.Cut {
		p.WriteString("  (it said more)\n")
	}
}

// writeText writes what a container printed, and keeps it apart from what healthd says. Empty lines and
// indentation, which thread dumps have, stay.
func writeText(p *page, text string) {
	const bar = "  | "
	text = strings.TrimRight(strings.ReplaceAll(printable(text), "\t", "    "), " \n")
	if text == "" {
		p.WriteString("  (nothing)\n")
		return
	}
	for l := range strings.SplitSeq(text, "\n") {
		for _, piece := range chop(l, p.columns-len(bar)) {
			p.WriteString(strings.TrimRight(bar+piece, " ") + "\n")
		}
	}
}

func writeRecordedProbes(p *page, r *supervisor.FlightRecord) {
	// The one whose verdict it was comes first.
	probes := slices.Clone(r.Probes)
	slices.SortStableFunc(probes, func(a, b supervisor.RecordedProbe) int {
		switch r.Cause {
		case a.Type:
			return -1
		case b.Type:
			return 1
		}
		return 0
	})
	for _, probe := range probes {
		if len(probe.Results) == 0 {
			continue
		}
		fmt.Fprintf(p, "\n%s probe, threshold %d:\n", probe.Type, probe.FailureThreshold)
		var rows [][]cell
		for _, result := range slices.Backward(probe.Results) {
			rows = append(rows, []cell{
				{text: formatTime(result.Time)}, {text: outcomeText(result)}, {text: formatLatency(result.LatencySeconds)}, {text: outputText(result)},
			})
		}
		p.table([]string{"TIME", "OUTCOME", "TOOK", "OUTPUT"}, []flexible{{column: 3, least: 20}}, rows)
	}
}

func outcomeText(r supervisor.RecordedResult) string {
	if r.Cause == "" {
		return r.Outcome
	}
	return r.Outcome + ", " + r.Cause
}

func outputText(r supervisor.RecordedResult) string {
	if r.Dropped {
		return "(not kept)"
	}
	return line(r.Output)
}

func writeRecordedLog(p *page, l supervisor.RecordedLog) {
	about := fmt.Sprintf("the last %s", plural(len(l.Lines), "line"))
	switch {
	case l.Error != "":
		about = line(l.Error)
	case len(l.Lines) == 0 && !l.Cut:
		about = "it wrote nothing"
	case l.Cut:
		about += ", as far as they fit"
	}
	p.WriteByte('\n')
	p.write("", "log ("+about+"):", 2)
	var b strings.Builder
	for _, entry := range l.Lines {
		if !entry.Time.IsZero() {
			b.WriteString(entry.Time.Local().Format("15:04:05.000") + " ")
		}
		b.WriteString(entry.Text + "\n")
	}
	if b.Len() > 0 {
		writeText(p, b.String())
	}
}

func writeRecordedProcesses(p *page, processes supervisor.RecordedProcesses) {
	if processes.Error != "" {
		p.WriteByte('\n')
		p.write("", "processes: "+line(processes.Error), 2)
	}
	if len(processes.Rows) == 0 {
		return
	}
	p.WriteString("\nprocesses:\n")
	var rows [][]cell
	for _, row := range processes.Rows {
		var cells []cell
		for _, text := range row {
			cells = append(cells, cell{text: line(text)})
		}
		rows = append(rows, cells)
	}
	titles := make([]string, len(processes.Titles))
	for i, title := range processes.Titles {
		titles[i] = line(title)
	}
	p.table(titles, []flexible{{column: len(titles) - 1, least: 20}}, rows)
	if processes.More > 0 {
		fmt.Fprintf(p, "  and %d more\n", processes.More)
	}
}

func writeRecordedEvents(p *page, r *supervisor.FlightRecord) {
	if len(r.Events) == 0 {
		return
	}
	p.WriteString("\nevents of the 10 minutes before:\n")
	var rows [][]cell
	for _, ev := range r.Events {
		rows = append(rows, []cell{{text: formatTime(ev.Time)}, {text: ev.Reason}, {text: repeated(ev)}})
	}
	p.table([]string{"TIME", "REASON", "MESSAGE"}, []flexible{{column: 2, least: 20}}, rows)
}

func writeInspection(p *page, r *supervisor.FlightRecord) {
	in := r.Inspection
	p.WriteString("\ninspection:\n")
	fact := func(name, text string) {
		if text != "" {
			p.field(name, "%s", line(text))
		}
	}
	fact("id", r.ID)
	fact("image id", in.ImageID)
	fact("state", in.State)
	fact("error", in.EngineError)
	fact("spec", r.Spec)
	fact("service", r.Service)
	fact("address", strings.TrimSpace(in.Address+" "+in.Network))
	fact("limits", in.Resources)
	fact("policy", in.RestartPolicy)
	fact("signal", in.StopSignal)
	if in.StopTimeoutSeconds >= 0 {
		fact("timeout", seconds(in.StopTimeoutSeconds).String())
	}
	fact("variables", strings.Join(in.Environment, " "))
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(in.Labels)) {
		labels = append(labels, name+"="+in.Labels[name])
	}
	fact("labels", strings.Join(labels, " "))
}

func writeOtherRecords(p *page, r *supervisor.FlightRecord, all []supervisor.RecordInfo) {
	var rows [][]cell
	for _, info := range all {
		if info.Run != r.Run {
			rows = append(rows, []cell{{text: fmt.Sprint(info.Run)}, {text: formatTime(info.Time)}, {text: info.Cause}})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.WriteString("\nother records:\n")
	p.table([]string{"RUN", "TIME", "CAUSE"}, nil, rows)
}
