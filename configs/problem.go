package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"healthd/supervisor/core"
)

// Problem is one thing wrong with the configuration or with a label.
type Problem struct {
	File  string // empty for a label
	Line  int    // 0 when it is not known, as where the file could not be read
	Label bool
	Path  string // as in "spec[web].liveness.period", of a label "liveness.period"
	Text  string

	order int // of File among those loaded
}

// String returns "FILE:LINE: PATH: what is wrong", or for a label
// "label healthd.PATH: what is wrong".
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Label:
		b.WriteString("label healthd.")
	case p.Line > 0:
		b.WriteString(p.File + ":" + strconv.Itoa(p.Line) + ": ")
	default:
		b.WriteString(p.File + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Problems is everything wrong with a configuration, in the order of files and
// lines.
type Problems []Problem

// Error returns one problem per line.
func (ps Problems) Error() string { return ps.join("\n") }

func (ps Problems) join(sep string) string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, sep)
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Line, b.Line))
	})
}

// maxLabelProblems bounds what one container can add to a status or the journal.
const maxLabelProblems = 10

// labelError returns the problems of one container's labels as an error of one
// line, for status and events.
func (ps Problems) labelError() error {
	if len(ps) <= maxLabelProblems {
		return errors.New(ps.join("; "))
	}
	return fmt.Errorf("%s; and %d more", ps[:maxLabelProblems].join("; "), len(ps)-maxLabelProblems)
}

// place is where a value was written.
type place struct {
	file  string
	order int    // of file among those loaded
	line  int    // 0 when it is not known
	label string // the label's key; then the others are unset
}

// String returns the place as Value.Origin shows it.
func (p place) String() string {
	if p.label != "" {
		return "label " + plain(p.label)
	}
	if p.file == "" {
		return originDefault
	}
	if p.line == 0 {
		return p.file
	}
	return p.file + ":" + strconv.Itoa(p.line)
}

func (p place) fromLabel() bool { return p.label != "" }

func (p place) problem(path, format string, args ...any) Problem {
	return Problem{
		File: p.file, Line: p.line, Label: p.fromLabel(), Path: path,
		Text: fmt.Sprintf(format, args...), order: p.order,
	}
}

const originDefault = core.OriginDefault

// maxShown bounds how much of a foreign text goes into a message.
const maxShown = 64

// quote returns s in quotes, without control characters and not too long.
func quote(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "..."
	}
	return strconv.Quote(s)
}

// plain returns s as it is when it is made of the characters of an ordinary
// label key, and quoted when not.
func plain(s string) string {
	odd := func(r rune) bool { return !isKeyRune(r) && r != '.' && r != '/' }
	if s == "" || len(s) > maxShown || strings.ContainsFunc(s, odd) {
		return quote(s)
	}
	return s
}

// showKey returns one key as TOML would write it.
func showKey(s string) string {
	odd := func(r rune) bool { return !isKeyRune(r) }
	if s == "" || len(s) > maxShown || strings.ContainsFunc(s, odd) {
		return quote(s)
	}
	return s
}

// isKeyRune says whether TOML allows r in a key without quotes.
func isKeyRune(r rune) bool {
	return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
