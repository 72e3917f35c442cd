package supervisor

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escaping writes what Escape returns. Each Write has whole characters.
type Escaping struct{ To io.Writer }

// Write implements io.Writer.
func (e Escaping) Write(p []byte) (int, error) {
	if _, err := e.To.Write(Escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Escape returns JSON, or lines of a log with JSON in them, so that a terminal shows it as it is:
// characters that it may obey, or that change the order of others, are \u009b and the like. JSON
// itself escapes only those below the space. The text is that of containers: names, labels, what probes said.
func Escape(p []byte) []byte {
	if !slices.ContainsFunc(p, unusual) || !bytes.ContainsFunc(p, invisible) {
		return p
	}
	var b bytes.Buffer
	for _, r := range string(p) {
		switch r1, r2 := utf16.EncodeRune(r); {
		case !invisible(r):
			b.WriteRune(r)
		case r1 != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, r1, r2)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// unusual says of nearly no byte of nearly all texts that a character with it may be invisible.
func unusual(b byte) bool { return b >= 0x7f || b < ' ' && b != '\n' && b != '\t' }

func invisible(r rune) bool {
	return r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || r == utf8.RuneError)
}
