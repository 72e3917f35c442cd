package notify

import (
	"cmp"
	"fmt"
	"strings"

	"healthd/prober"
	"healthd/supervisor/core"
)

// maxCause bounds what a message says of one incident, in bytes.
const maxCause = 300

// causeOf returns why a container is not well: what the probe that fails has said, else how its last run ended.
func causeOf(v *core.View) string {
	s := &v.State
	for t := range core.ProbeType(core.NumProbes) {
		y := &s.Health.Probes[t]
		if v.Spec != nil && v.Spec.Probes[t] != nil && y.Outcome == prober.Failure {
			failed := "failed"
			if y.Unknowns > 0 {
				failed = "failed, and cannot be asked now"
			}
			return clip(fmt.Sprintf("its %s probe %s: %s", t, failed, y.Last.Output))
		}
	}
	exit := s.Run.Exit
	if exit.FinishedAt.IsZero() {
		exit = s.Run.LastExit
	}
	if exit.FinishedAt.IsZero() {
		_, reason, message := v.Readiness()
		return clip(cmp.Or(message, reason))
	}
	text := fmt.Sprintf("it ended with exit code %d (%s)", exit.Code, exit.Reason)
	if s.Request.Error != "" {
		text = s.Request.Error
	}
	return clip(text)
}

// clip returns a text of one line of at most maxCause bytes. Probes' output comes from containers.
func clip(s string) string { return cut(oneLine(s), maxCause) }

// oneLine replaces what would break a line or move a cursor.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// cut cuts a text between two characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:most-len(dots)], "") + dots
}
