package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// What the summary shows: packages and tests that took long.
const (
	longPackage  = time.Second
	slowestTests = 12
)

// writeSummary prints what took long, wall and CPU, and how many tests there were.
func (o testResults) writeSummary(w io.Writer) {
	var packages, tests testResults
	count := map[result]int{}
	var cpu time.Duration
	for _, t := range o {
		if t.name == "" {
			packages = append(packages, t)
			cpu += t.cpu()
			continue
		}
		count[t.result]++
		if !slices.ContainsFunc(o, t.contains) {
			tests = append(tests, t)
		}
	}
	slowestFirst := func(a, b *testResult) int { return cmp.Compare(b.elapsed, a.elapsed) }
	slices.SortStableFunc(packages, slowestFirst)
	slices.SortStableFunc(tests, slowestFirst)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "\nwall\tCPU\ttests\t  package, if it took %v\n", longPackage)
	for _, p := range packages {
		if p.elapsed >= longPackage || p.cpu() >= longPackage {
			fmt.Fprintf(tab, "%.1f s\t%.1f s\t%d\t  %s\n", p.elapsed.Seconds(), p.cpu().Seconds(), o.countIn(p), p.pkg)
		}
	}
	fmt.Fprintf(tab, "\nwall\t  slowest tests\n")
	for _, t := range tests[:min(len(tests), slowestTests)] {
		fmt.Fprintf(tab, "%.1f s\t  %v\n", t.elapsed.Seconds(), t)
	}
	_ = tab.Flush() // w keeps the error
	fmt.Fprintf(w, "\n%d packages took %.0f s of CPU, builds apart\n%d passed, %d failed, %d skipped\n",
		len(packages), cpu.Seconds(), count[passed], count[failed]+count[unfinished], count[skipped])
}

// countIn is how many tests of a package there are, with the rows of tables.
func (o testResults) countIn(p *testResult) (n int) {
	for _, t := range o {
		if p.contains(t) {
			n++
		}
	}
	return n
}

// cpuLine is what scripts/measured prints.
var cpuLine = regexp.MustCompile(`healthd: cpu ([0-9]+) ms user ([0-9]+) ms system`)

// cpu is what the processes of a package took, builds apart; 0 when scripts/measured did not run it.
func (t *testResult) cpu() (all time.Duration) {
	for _, found := range cpuLine.FindAllStringSubmatch(t.output.String(), -1) {
		for _, text := range found[1:] {
			ms, _ := strconv.Atoi(text) // the pattern lets numbers pass only
			all += time.Duration(ms) * time.Millisecond
		}
	}
	return all
}

// mostAgain is how many failed tests run again: of more, something else is wrong.
const mostAgain = 12

// runAgain runs each test that failed itself again, alone, and says what came of it. That it passes then excuses
// nothing: a test that fails beside others is wrong, too.
func (o testResults) runAgain(w io.Writer, run func(pkg, pattern string) error) {
	n := 0
	for _, t := range o {
		if t.name == "" || !o.failedItself(t) {
			continue
		}
		if n++; n > mostAgain {
			fmt.Fprintln(w, "and more, which do not run again")
			return
		}
		if err := run(module+t.pkg, pattern(t.name)); err != nil {
			fmt.Fprintf(w, "failed: %v; alone, too: %v\n", t, err)
		} else {
			fmt.Fprintf(w, "failed, passed alone: %v\n", t)
		}
	}
}

// pattern is the -run of one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
