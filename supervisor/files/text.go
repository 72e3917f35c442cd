package files

import "strings"

// maxShown bounds what goes of a foreign text into a message, in bytes.
const maxShown = 300

const dots = "…"

// clip returns a text of one line, and of a long one the begin.
func clip(s string) string {
	s = oneLine(s)
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown-len(dots)], "") + dots
}

// clipBegin returns a text of one line, and of a long one the end, where most programs say what they ended for.
func clipBegin(s string) string {
	s = oneLine(s)
	if len(s) <= maxShown {
		return s
	}
	return dots + strings.ToValidUTF8(s[len(s)-maxShown+len(dots):], "")
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}
