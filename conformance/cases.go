package main

import (
	"fmt"
	"strconv"
	"strings"
)

// kubeletCase is one case of the list.
type kubeletCase struct {
	number int
	tag    string // one of the three below
	text   string
	reason string // why it does not apply
}

// The tags.
const (
	asIs         = "="
	adapted      = "~"
	doesNotApply = "-"
)

// parseCases parses lines "NUMBER TAG TEXT", with "| REASON" after those that do not apply.
// Empty lines and lines that begin with # are comments. The numbers must count up from 1
// without a gap, so that none is missing or used twice.
func parseCases(file, text string) ([]kubeletCase, error) {
	var cases []kubeletCase
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimSpace(s)
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		c, err := parseCase(s)
		if err == nil && c.number != len(cases)+1 {
			err = fmt.Errorf("the number is %d, must be %d", c.number, len(cases)+1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func parseCase(s string) (kubeletCase, error) {
	first, rest, _ := strings.Cut(s, " ")
	tag, rest, _ := strings.Cut(rest, " ")
	text, reason, _ := strings.Cut(rest, "|")
	number, err := strconv.Atoi(first)
	c := kubeletCase{number, tag, strings.TrimSpace(text), strings.TrimSpace(reason)}
	switch {
	case err != nil:
		return c, fmt.Errorf("must begin with a number, is %q", first)
	case tag != asIs && tag != adapted && tag != doesNotApply:
		return c, fmt.Errorf("the tag must be =, ~ or -, is %q", tag)
	case c.text == "":
		return c, fmt.Errorf("case %d has no text", number)
	case tag == doesNotApply && c.reason == "":
		return c, fmt.Errorf("case %d does not apply, but has no reason", number)
	case tag != doesNotApply && strings.Contains(rest, "|"):
		return c, fmt.Errorf("case %d applies, but has a reason why not", number)
	}
	return c, nil
}
