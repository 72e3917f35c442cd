package importer

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// comment returns a text as a comment may have it: on one line, visible, and not too long.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r) || r == utf8.RuneError:
			return '?'
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxComment {
		return string([]rune(s)[:maxComment]) + "…"
	}
	return s
}

// wrap breaks a text into lines between words. A longer word has a line of its own.
func wrap(s string, width int) []string {
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(s) {
		if current != "" && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > width {
			lines, current = append(lines, current), ""
		}
		current = strings.TrimPrefix(current+" "+word, " ")
	}
	return append(lines, current)
}

// notUTF8 stands for a text that no TOML has. It must not become another one.
const notUTF8 = "\x00"

// quote returns a string as TOML writes it, on one line and without characters that a terminal may obey.
func quote(s string) string {
	if !utf8.ValidString(s) {
		return notUTF8
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteAll returns a list of strings as TOML writes it.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// showDuration writes a duration without the parts that are zero: "1m", not "1m0s".
func showDuration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// bare returns a key as TOML writes it.
func bare(key string) string {
	odd := func(r rune) bool { return r >= 0x80 || r != '_' && r != '-' && !isAlphanumeric(byte(r)) }
	if key == "" || strings.ContainsFunc(key, odd) {
		return quote(key)
	}
	return key
}
