package main

import (
	"fmt"
	"strings"
	"time"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// remark says what is wrong with a container's labels, how long it is held, and why it is not ready or waits, with the
// command that tells more or helps.
func remark(s api.Status, now time.Time) string {
	text := ""
	if w := s.State.Waiting; w != nil && waitsForOthers(w) {
		text = ": " + line(w.Message)
	}
	switch {
	case s.Unsupervised != "":
		return fmt.Sprintf("%s is not supervised: %s", line(s.Name), line(s.Unsupervised))
	case s.Invalid != "":
		return fmt.Sprintf("%s is Invalid, healthd does not supervise it: %s", s.Name, line(s.Invalid))
	case s.Held:
		return fmt.Sprintf("%s is held %s%s", s.Name, heldText(s, now), text)
	case endedByItself(s) && s.EnginePolicy != "":
		return fmt.Sprintf("%s has ended, and healthd does not start it: the engine's own restart policy decides (%s)", s.Name, line(s.EnginePolicy))
	case endedByItself(s) && s.Mode == observe && policyRestarts(s):
		return s.Name + " has ended, and is only observed: healthd does not start it"
	case endedByItself(s) && policyRestarts(s):
		return fmt.Sprintf("%s has ended, and healthd does not start it: it did not see it end, or only observed it then (healthd explain %[1]s)", s.Name)
	case s.Why == "" || s.Ready && s.State.Waiting == nil || endedAsWanted(s):
		return ""
	}
	return fmt.Sprintf("%s: %s (%s)", s.Name, line(s.Why)+nextStart(s, now), nextCommand(s))
}

// endedAsWanted says whether a container does not run because its operator, or its own end, wanted that.
func endedAsWanted(s api.Status) bool {
	t := s.State.Terminated
	created := s.State.Waiting != nil && s.State.Waiting.Reason == core.WaitCreated
	return created || t != nil && (t.Reason == core.ReasonCompleted || t.Reason == core.ReasonStoppedByOperator)
}

// nextStart says when the back-off is over.
func nextStart(s api.Status, now time.Time) string {
	w := s.State.Waiting
	switch {
	case w == nil || w.Reason != core.WaitCrashLoop:
		return ""
	case w.Until.After(now):
		return fmt.Sprintf(" Next start in %v.", w.Until.Sub(now).Round(time.Second))
	}
	return " Starts now."
}

// nextCommand is what to do about a container that is not well.
func nextCommand(s api.Status) string {
	w := s.State.Waiting
	switch {
	case w != nil && w.Reason == core.WaitGaveUp:
		return "healthd resume " + s.Name
	case s.State.Terminated != nil || w != nil && w.Reason == core.WaitCrashLoop:
		return "healthd why " + s.Name
	case readyCondition(s).Reason == core.NotReadyGates:
		for _, g := range s.Gates() {
			if g.Status != "True" {
				return fmt.Sprintf("healthd gate %s %s True", s.Name, line(g.Type))
			}
		}
	}
	return "healthd explain " + s.Name
}

// remarks returns the remark on each container that has one; on a terminal only the first ones, so that they do not
// push the table out of sight.
func remarks(all []api.Status, columns int, now time.Time) []string {
	const most = 10
	var texts []string
	supervised, more := 0, 0
	for _, s := range all {
		text := remark(s, now)
		switch {
		case text == "":
			continue
		case s.Unsupervised != "": // who asks for these wants the reasons
		case supervised >= most && columns < unlimited:
			more++
			continue
		default:
			supervised++
		}
		texts = append(texts, text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more: healthd explain NAME", more))
	}
	return texts
}

// observe is the mode of a container that healthd neither stops nor starts.
const observe = "observe"

// policyRestarts says whether the restart policy alone would have healthd start the container again
// that has ended.
func policyRestarts(s api.Status) bool {
	return s.RestartPolicy == core.Always || s.RestartPolicy == core.OnFailure && s.State.Terminated.ExitCode != 0
}

// endedByItself says whether a container has ended, and neither healthd nor an operator
// stopped it.
func endedByItself(s api.Status) bool {
	if s.State.Terminated == nil {
		return false
	}
	switch s.State.Terminated.Reason {
	case core.ReasonCompleted, core.ReasonError, core.ReasonOOMKilled:
		return true
	}
	return false
}

// observedNote says which containers healthd only observes: on a terminal a few of them.
func observedNote(all []api.Status, columns int) string {
	var names []string
	for _, s := range all {
		if s.Mode == observe {
			names = append(names, s.Name)
		}
	}
	switch n := len(names); {
	case n == 0:
		return ""
	case n == len(all) && n > 1:
		names = []string{"all of these"}
	default:
		names = upTo(names, columns, "more")
	}
	return "Only observed, not restarted (mode observe): " + list(names)
}

// managedNote says which containers another orchestrator starts, and not healthd: on a terminal a few of them.
func managedNote(all []api.Status, columns int) string {
	var texts []string
	for _, s := range all {
		if s.ManagedBy != "" {
			texts = append(texts, fmt.Sprintf("%s (%s)", s.Name, line(s.ManagedBy)))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "Managed by another orchestrator, and never started by healthd: " + list(upTo(texts, columns, "more"))
}

// upTo shortens a list on a terminal, and says how many are left out and where they are.
func upTo(texts []string, columns int, left string) []string {
	const most = 3
	if columns == unlimited || len(texts) <= most {
		return texts
	}
	return append(texts[:most:most], fmt.Sprintf("%d %s", len(texts)-most, left))
}

// engineNote says of which containers the engine, and not healthd, looks after exits: on a terminal of a few,
// as -o wide has it in a column.
func engineNote(all []api.Status, columns int) string {
	var texts []string
	for _, s := range all {
		if s.EnginePolicy != "" && s.Invalid == "" {
			texts = append(texts, fmt.Sprintf("%s (%s)", s.Name, line(s.EnginePolicy)))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "The engine's own restart policy decides after exits of " + list(upTo(texts, columns, "more (-o wide)")) + "; healthd restarts after failed probes"
}

// list joins texts to "a, b and c".
func list(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// waitsForOthers says whether a container waits for something beside time.
func waitsForOthers(w *api.Waiting) bool {
	switch w.Reason {
	case core.WaitGroupLimit, core.WaitRestartBudget, core.WaitHostSuspect, core.WaitHeld, core.WaitGaveUp, core.WaitObserved, core.WaitNetwork, core.WaitRuntimeUnknown:
		return true
	}
	return false
}
