package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// row is a case with its tests.
type row struct {
	kubeletCase
	tests []*testResult
	pass  bool
}

// assignTests gives each case its tests. Without cases nothing is said of those that tests name. The problems include
// failures of tests that name no case.
func assignTests(cases []kubeletCase, o testResults) (rows []row, problems []string) {
	for _, c := range cases {
		rows = append(rows, row{kubeletCase: c})
	}
	for _, t := range o {
		if o.failedItself(t) {
			problems = append(problems, fmt.Sprintf("%v %v%s", t, t.result, t.complaints()))
		}
		if len(rows) == 0 {
			continue
		}
		for _, value := range t.caseAttrs {
			problems = append(problems, assignCases(rows, t, value)...)
		}
	}
	for i := range rows {
		problems = append(problems, rows[i].setPass(o)...)
	}
	return rows, problems
}

// assignCases adds t to the cases that its attribute names.
func assignCases(rows []row, t *testResult, value string) (problems []string) {
	words := strings.Fields(value)
	if len(words) == 0 {
		problems = append(problems, fmt.Sprintf("%v has an attribute %s that names no case", t, key))
	}
	for _, word := range words {
		n, err := strconv.Atoi(word)
		switch {
		case err != nil || n < 1 || n > len(rows):
			problems = append(problems, fmt.Sprintf("%v names case %s, which is not in the list", t, word))
		case rows[n-1].tag == doesNotApply:
			problems = append(problems, fmt.Sprintf("%v names case %d, which does not apply: %s", t, n, rows[n-1].reason))
		case !slices.Contains(rows[n-1].tests, t):
			rows[n-1].tests = append(rows[n-1].tests, t)
		}
	}
	return problems
}

// setPass sets whether the case passes and returns why not.
func (r *row) setPass(o testResults) (problems []string) {
	if r.tag == doesNotApply {
		return nil
	}
	if len(r.tests) == 0 {
		return []string{fmt.Sprintf("case %d has no test: %s", r.number, r.text)}
	}
	for _, t := range r.tests {
		if pass, why := o.verdict(t); !pass {
			problems = append(problems, fmt.Sprintf("case %d: %s", r.number, why))
		}
	}
	r.pass = len(problems) == 0
	return problems
}

const heading = `# Conformance with the kubelet

healthd decides as the kubelet does. The table lists the cases of the kubelet's unit tests
(Kubernetes v1.36) for probes, restarts, back-off, hooks and validation, in our own words.
Beside each case are the tests of healthd that cover it. The case passes when all of them
pass. A pod of the kubelet is one container here. Where healthd deliberately does something
else, the case says so in parentheses. n/a marks a case about something that healthd does
not have, with the reason.

` + "`make conformance`" + ` runs the tests and writes this page from ` + "`conformance/cases.txt`" + `.
Do not edit the page.

`

// writePage writes the whole page.
func writePage(w io.Writer, rows []row) {
	var apply, tested, pass int
	for _, r := range rows {
		if r.tag == doesNotApply {
			continue
		}
		apply++
		if len(r.tests) > 0 {
			tested++
		}
		if r.pass {
			pass++
		}
	}
	fmt.Fprint(w, heading)
	fmt.Fprintf(w, "Cases: %d. Not applicable: %d. With a test: %d of %d. Passed: %d.\n\n",
		len(rows), len(rows)-apply, tested, apply, pass)
	fmt.Fprint(w, "| number | case | test | pass |\n|---|---|---|---|\n")
	for _, r := range rows {
		writeRow(w, r)
	}
}

func writeRow(w io.Writer, r row) {
	var names []string
	for _, t := range r.tests {
		names = append(names, escape(t.String()))
	}
	slices.Sort(names)
	last := "FAIL"
	switch {
	case r.tag == doesNotApply:
		last = "n/a: " + escape(r.reason)
	case r.pass:
		last = "pass"
	}
	fmt.Fprintf(w, "| %d | %s | %s | %s |\n", r.number, escape(r.text), strings.Join(names, "<br>"), last)
}

// escape escapes Markdown.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `|`, `\|`, `*`, `\*`, `<`, `\<`, "`", "\\`").Replace(s)
}
