package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// why says in sentences why a container is as it is: what the page and status show. It is empty where there is nothing
// to say. When a wait ends is left out, because that changes with each second: see Glance.Until.
func why(g *Glance, look supervisor.Look) string {
	switch look {
	case supervisor.LookWaiting:
		return whyWaiting(g)
	case supervisor.LookNotReady:
		if f := readinessFirst(g.Failing); f != nil && g.Reason == core.NotReadyReadiness {
			return f.sentence()
		}
	case supervisor.LookStopped:
		switch {
		case g.Reason == core.WaitGaveUp, g.Reason == core.WaitStartError:
		case g.Ended != nil:
			return sentence(g.Ended.how())
		default:
			return "It has never run."
		}
	case supervisor.LookUnknown:
		if g.Reason != core.WaitRuntimeUnknown {
			return "healthd cannot reach its engine. What was last published stays published."
		}
	case supervisor.LookPaused:
		return "Somebody paused it."
	case supervisor.LookStarting, supervisor.LookReady:
		if len(g.Failing) > 0 && (look == supervisor.LookStarting || g.Reason == "") {
			return g.Failing[0].sentence()
		}
		if look == supervisor.LookStarting {
			return ""
		}
	}
	return g.because()
}

// because is the message, or else the reason, as a sentence.
func (g *Glance) because() string {
	if g.Message == "" {
		return sentence(g.Reason)
	}
	return sentence(g.Message)
}

func whyWaiting(g *Glance) string {
	var parts []string
	switch g.Reason {
	case core.WaitCrashLoop:
		if !strings.HasPrefix(g.Message, "back-off") { // as Until says
			parts = append(parts, sentence(g.Message))
		}
		if g.Restarts > 1 {
			parts = append(parts, fmt.Sprintf("Restarted %d times.", g.Restarts))
		}
	case core.WaitRestarting, core.NotReadyNotRun:
		parts = append(parts, sentence(g.Message))
	default:
		return g.because()
	}
	if g.Ended != nil {
		parts = append([]string{sentence(g.Ended.how())}, parts...)
	}
	return strings.Join(parts, " ")
}

// how says how a run ended.
func (t *Terminated) how() string {
	switch t.Reason {
	case core.ReasonCompleted:
		return "completed, exit code 0"
	case core.ReasonOOMKilled:
		return "killed for want of memory"
	case core.ReasonStoppedByOperator:
		return "stopped by an operator"
	case core.ReasonLivenessFailed:
		return "stopped by healthd: liveness probe failed"
	case core.ReasonStartupFailed:
		return "stopped by healthd: startup probe failed"
	}
	if t.Signal > 0 {
		return fmt.Sprintf("ended with signal %d", t.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", t.ExitCode)
}

// readinessFirst returns the readiness probe, if that fails, else the first that does; nil: none does.
func readinessFirst(all []Failing) *Failing {
	for i := range all {
		if all[i].Probe == core.Readiness.String() {
			return &all[i]
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// sentence is, for example, "Liveness probe failed 2 of 3 times: OUTPUT".
func (f *Failing) sentence() string {
	what := fmt.Sprintf("failed %d of %d times", f.Run, f.Threshold)
	switch {
	case f.Unknown:
		what = fmt.Sprintf("has been Unknown %d times in a row", f.Run)
	case f.Run >= f.Threshold:
		what = fmt.Sprintf("fails (%d in a row)", f.Run)
	}
	text := capital(f.Probe) + " probe " + what
	if f.Output != "" {
		text += ": " + f.Output
	}
	return text
}

// sentence begins with a capital and ends with a dot.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if last, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", last) {
		text += "."
	}
	return capital(text)
}

func capital(text string) string {
	if strings.HasPrefix(text, "healthd ") { // the name of the program
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
