package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printable removes control characters except line breaks and tabs. Labels and the output
// of probes come from the containers, and must not control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, s)
}

// line is printable on one line.
func line(s string) string {
	return strings.Join(strings.Fields(printable(s)), " ")
}

// shorten cuts a text to width characters and marks the cut.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// wrap breaks a text into lines of at most width characters: between words, and
// where a word is longer than a line.
func wrap(s string, width int) []string {
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width:
			current += " " + word
		default:
			lines = append(lines, current)
			current = word
		}
		if pieces := chop(current, width); len(pieces) > 1 {
			lines = append(lines, pieces[:len(pieces)-1]...)
			current = pieces[len(pieces)-1]
		}
	}
	return append(lines, current)
}

// chop cuts a text into pieces of at most width characters.
func chop(s string, width int) []string {
	var pieces []string
	rest := []rune(s)
	for len(rest) > width {
		pieces = append(pieces, string(rest[:width]))
		rest = rest[width:]
	}
	return append(pieces, string(rest))
}

// formatAge formats a duration in its largest unit.
func formatAge(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// formatLatency formats a short duration with about three digits.
func formatLatency(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
