package journal

import (
	"strings"
	"unicode/utf8"

	"healthd/supervisor/core"
)

// maxText bounds each text of an event, in bytes. What a probe that failed said may be ten
// times as long: the status has it whole.
const maxText = 1 << 10

// cutMark is at the end of a text that was cut.
const cutMark = "… (cut)"

// shorten returns ev with texts of at most maxText bytes.
func shorten(ev core.Event) core.Event {
	ev.Container, ev.Reason, ev.Message = cut(ev.Container), cut(ev.Reason), cut(ev.Message)
	return ev
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	end := maxText - len(cutMark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// escape is how JSON writes a control character.
const escape = `\u0001`

// historyBytes returns how much of the history a shortened event takes: the bytes of its
// record or a little more, and at least leastEvent.
func historyBytes(ev *core.Event) int {
	const rest = 192 // names of fields, times, count, key and checksum
	if n := len(ev.Container) + len(ev.Reason) + len(ev.Message); rest+n*len(escape) <= leastEvent {
		return leastEvent
	}
	return max(leastEvent, rest+jsonBytes(ev.Container)+jsonBytes(ev.Reason)+jsonBytes(ev.Message))
}

// jsonBytes returns how long a text is in JSON.
func jsonBytes(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
			n += len(`\n`)
		case r < ' ', r == '\u2028', r == '\u2029':
			n += len(escape)
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}
