package recorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Bounds of what the labels and variables of a container take in a record.
const (
	maxNames = 500
	maxValue = 1 << 10 // bytes of one label
)

// describe returns what a record has without a question to anybody.
func describe(o *supervisor.Occasion) *supervisor.FlightRecord {
	v, c, s := o.View, o.View.Container, &o.View.State
	r := &supervisor.FlightRecord{
		Container: o.Name, ID: c.ID, Runtime: c.Runtime, Image: c.Image, Identity: v.Identity, Service: v.Service,
		Time: o.At.UTC(), Cause: causeOf(o), StartedAt: s.Run.StartedAt.UTC(), Restarts: s.RestartCount(),
		Events: []core.Event{}, Probes: []supervisor.RecordedProbe{}, Inspection: recordedInspection(c),
		Log:       supervisor.RecordedLog{Lines: []supervisor.RecordedLine{}, Error: errInTime.Error()},
		Processes: recordedProcesses(runtime.Processes{}, errInTime), Usage: supervisor.RecordedUsage{Error: errInTime.Error()},
	}
	ran := o.At.Sub(s.Run.BeganAt)
	if o.Cause == core.ByExit {
		r.StartedAt, r.FinishedAt, r.ExitCode = o.Exit.StartedAt.UTC(), o.Exit.FinishedAt.UTC(), o.Exit.Code
		ran = o.Exit.FinishedAt.Sub(o.Exit.StartedAt)
		r.Processes.Error, r.Usage.Error = errEnded.Error(), errEnded.Error()
	}
	r.RanSeconds = max(0, ran).Seconds()
	if v.Spec != nil {
		r.Spec, r.Probes = v.Spec.Name, recordedProbes(v.Spec, &o.Recent)
		if command := v.Spec.Recorder.Command; len(command) > 0 && o.Cause != core.ByExit {
			r.Command = recordedCommand(command, prober.Answer{Err: errInTime})
		}
	}
	r.Message = message(o)
	return r
}

func causeOf(o *supervisor.Occasion) string {
	switch {
	case o.Cause == core.ByLiveness:
		return supervisor.RecordLiveness
	case o.Cause == core.ByStartup:
		return supervisor.RecordStartup
	case o.Cause == core.ByPostStart:
		return supervisor.RecordPostStart
	case o.Exit.Reason == core.ReasonOOMKilled:
		return supervisor.RecordOOM
	}
	return supervisor.RecordCrash
}

// message says in a line what happened.
func message(o *supervisor.Occasion) string {
	failed := func(t core.ProbeType) string {
		text := fmt.Sprintf("%s probe failed (%d in a row)", t, failuresInARow(o, t))
		if results := o.Recent[t]; len(results) > 0 && results[len(results)-1].Output != "" {
			text += ": " + results[len(results)-1].Output
		}
		return text
	}
	switch causeOf(o) {
	case supervisor.RecordLiveness:
		return failed(core.Liveness)
	case supervisor.RecordStartup:
		return failed(core.Startup)
	case supervisor.RecordPostStart:
		return "post_start hook failed"
	case supervisor.RecordOOM:
		return fmt.Sprintf("killed for want of memory (exit code %d)", o.Exit.Code)
	}
	text := fmt.Sprintf("exited with code %d", o.Exit.Code)
	if name := signalOf(o.Exit.Code); name != "" {
		text += " (" + name + ")"
	}
	return text
}

// failuresInARow returns how often a probe has failed, at least as often as its verdict needs: the
// newest results may be fewer.
func failuresInARow(o *supervisor.Occasion, t core.ProbeType) int {
	n := 0
	for _, r := range slices.Backward(o.Recent[t]) {
		if r.Outcome == prober.Success {
			break
		}
		if r.Outcome == prober.Failure {
			n++
		}
	}
	if p := o.View.Spec.Probes[t]; p != nil {
		n = max(n, p.FailureThreshold)
	}
	return n
}

// signalOf returns the name of the signal that ended a process, by its exit code; empty: none did.
func signalOf(code int) string {
	const signalled, last = 128, 64
	if code <= signalled || code > signalled+last {
		return ""
	}
	return unix.SignalName(syscall.Signal(code - signalled))
}

func recordedProbes(spec *core.Spec, recent *[core.NumProbes][]supervisor.RecentResult) []supervisor.RecordedProbe {
	probes := []supervisor.RecordedProbe{}
	for t := range core.ProbeType(core.NumProbes) {
		p := spec.Probes[t]
		if p == nil {
			continue
		}
		probe := supervisor.RecordedProbe{Type: t.String(), FailureThreshold: p.FailureThreshold, Results: []supervisor.RecordedResult{}}
		for _, r := range recent[t] {
			probe.Results = append(probe.Results, supervisor.RecordedResult{
				Time: r.At.UTC(), Outcome: r.Outcome.String(), Cause: string(r.Cause), Warning: r.Warning,
				LatencySeconds: r.Latency.Seconds(), Output: r.Output, Dropped: r.Dropped,
			})
		}
		probes = append(probes, probe)
	}
	return probes
}

func recordedLog(l runtime.Log, err error) supervisor.RecordedLog {
	out := supervisor.RecordedLog{Lines: []supervisor.RecordedLine{}, Cut: l.Cut, Error: textOf(err)}
	for _, line := range l.Lines {
		out.Lines = append(out.Lines, supervisor.RecordedLine{Time: utc(line.Time), Text: line.Text})
	}
	return out
}

func recordedProcesses(p runtime.Processes, err error) supervisor.RecordedProcesses {
	// No list is null, also for readers that cannot take null for an empty one.
	return supervisor.RecordedProcesses{Titles: append([]string{}, p.Titles...), Rows: append([][]string{}, p.Rows...), More: p.More, Error: textOf(err)}
}

func recordedUsage(u runtime.Usage, cores float64, err error) supervisor.RecordedUsage {
	return supervisor.RecordedUsage{
		MemoryBytes: int(u.Memory), MemoryLimitBytes: int(u.MemoryLimit), CPUCores: cores, CPUSeconds: u.CPU.Seconds(),
		ThrottledSeconds: u.Throttled.Seconds(), PIDs: int(u.PIDs), PIDsLimit: int(u.PIDsLimit), Error: textOf(err),
	}
}

func recordedCommand(command []string, a prober.Answer) supervisor.RecordedCommand {
	return supervisor.RecordedCommand{Command: command, Output: a.Output, Cut: a.Cut, ExitCode: a.ExitCode, TimedOut: a.TimedOut, Error: textOf(a.Err)}
}

// recordedInspection leaves out the values of variables.
func recordedInspection(c *runtime.Container) supervisor.RecordedInspection {
	in := supervisor.RecordedInspection{
		State: string(c.State), PID: c.Pid, ImageID: c.ImageID, Address: c.Address, Network: c.Network, Resources: c.Resources,
		RestartPolicy: c.RestartPolicy, StopSignal: c.StopSignal, StopTimeoutSeconds: c.StopTimeout.Seconds(), EngineError: c.Error,
		Environment: []string{}, Labels: map[string]string{},
	}
	for _, variable := range c.Env[:min(len(c.Env), maxNames)] {
		name, _, _ := strings.Cut(variable, "=")
		in.Environment = append(in.Environment, runtime.ClipName(name))
	}
	if c.StopTimeout < 0 {
		in.StopTimeoutSeconds = -1
	}
	slices.Sort(in.Environment)
	for _, name := range slices.Sorted(maps.Keys(c.Labels))[:min(len(c.Labels), maxNames)] {
		in.Labels[runtime.ClipName(name)] = c.Labels[name][:min(len(c.Labels[name]), maxValue)]
	}
	return in
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
