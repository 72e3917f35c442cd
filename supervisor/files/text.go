package files

import "strings"

// maxShown bounds what goes of a foreign text into a message, in bytes.
const maxShown = 300

// clip returns a text of one line of at most maxShown bytes.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if len(s) <= maxShown {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:maxShown-len(dots)], "") + dots
}
