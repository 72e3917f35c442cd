package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escaping writes JSON, or lines of a log with JSON in them, so that a terminal shows it as it is:
// characters that it may obey, or that change the order of others, are \u009b and the like. JSON
// itself escapes only those below the space. Each Write has whole characters.
type escaping struct{ to io.Writer }

// Write implements io.Writer.
func (e escaping) Write(p []byte) (int, error) {
	if _, err := e.to.Write(escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func escape(p []byte) []byte {
	if !bytes.ContainsFunc(p, invisible) {
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

func invisible(r rune) bool {
	return r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || r == utf8.RuneError)
}
