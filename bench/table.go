package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// table is what was measured, for people.
type table struct{ rows []row }

type row struct{ scenario, what, reached, target, verdict string }

// add adds a figure, and shows it at once: a run takes minutes.
func (t *table) add(scenario, what, reached, target string, met bool) {
	r := row{scenario, what, reached, target, ""}
	if target != "" {
		r.verdict = "yes"
		if !met {
			r.verdict = "NO"
		}
	}
	t.rows = append(t.rows, r)
	fmt.Fprintf(os.Stderr, "bench:   %s: %s %s\n", what, reached, strings.TrimSpace(target+" "+r.verdict))
}

// note adds a figure without a target.
func (t *table) note(scenario, what, format string, args ...any) {
	t.add(scenario, what, fmt.Sprintf(format, args...), "", true)
}

func (t *table) atMost(scenario, what string, reached, target float64, unit string) {
	t.add(scenario, what, fmt.Sprintf("%.3g %s", reached, unit), fmt.Sprintf("≤ %.3g %s", target, unit), reached <= target)
}

func (t *table) noMore(scenario, what string, reached, target int) {
	t.add(scenario, what, fmt.Sprint(reached), fmt.Sprintf("≤ %d", target), reached <= target)
}

func (t *table) noLess(scenario, what string, reached, target int) {
	t.add(scenario, what, fmt.Sprint(reached), fmt.Sprintf("≥ %d", target), reached >= target)
}

func (t *table) within(scenario, what string, reached, target time.Duration) {
	t.add(scenario, what, short(reached), "≤ "+short(target), reached <= target)
}

func (t *table) exactly(scenario, what string, reached, target int) {
	t.add(scenario, what, fmt.Sprint(reached), fmt.Sprint(target), reached == target)
}

// short rounds to three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}

// String returns the table in Markdown.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString("| scenario | measure | reached | target | met |\n|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.scenario, r.what, r.reached, r.target, r.verdict)
	}
	return b.String()
}
