// Command conformance reports a run of the tests: each package as it ends, what failed, what took long. It fails when
// a test failed.
//
// With a list of cases it writes the table of the kubelet's test cases and the tests of healthd that cover them. Then
// it also fails when an applicable case has no test or a test of it did not pass. With -check it writes nothing, and
// also fails when the table differs. With -again each failed test runs again, alone, and the report says how it ended.
// With -logs it shows the two ends of what a failed test has printed, and keeps the whole in a file.
//
//	go test -json ──▶ readResults ──▶ writeFailures, writeSummary
//	                       └─────▶ assignTests ──▶ writePage ──▶ docs/conformance.md
//	conformance/cases.txt ── parseCases ─┘
//
// A test names the cases that it covers: t.Attr("kubelet", "22 23").
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "compare with TABLE.md instead of writing it")
	again := flag.String("again", "", "run failed tests again with this `command`, such as \"go test -race -count=1\"")
	logs := flag.String("logs", "", "keep what failed tests print in files in this `directory`, and show their ends; else it is all shown")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go test -json PACKAGE… | conformance [-again COMMAND] [-logs DIR] [[-check] CASES TABLE.md]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 && flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	c := conformance{progress: os.Stdout, problems: os.Stderr, list: flag.Arg(0), logs: *logs}
	c.save = func(page []byte) error { return write(flag.Arg(1), page) }
	if *check {
		c.save = func(page []byte) error { return compare(flag.Arg(1), page) }
	}
	if *again != "" {
		c.again = func(pkg, pattern string) error { return runTest(*again, pkg, pattern) }
	}
	if err := c.run(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

// conformance is what a run of the program does.
type conformance struct {
	progress, problems io.Writer
	list               string // the file of the cases; empty: none
	logs               string // where what failed tests print is kept; empty: nowhere
	save               func(page []byte) error
	again              func(pkg, pattern string) error // runs a test; nil: none runs again
}

// run reads the output of go test -json from stream.
func (c *conformance) run(stream io.Reader) error {
	var cases []kubeletCase
	if c.list != "" {
		text, err := os.ReadFile(c.list)
		if err != nil {
			return fmt.Errorf("cannot read the cases: %w", err)
		}
		if cases, err = parseCases(c.list, string(text)); err != nil {
			return err
		}
	}
	o, err := readResults(stream, c.progress)
	if err != nil {
		return err
	}
	rows, wrong := assignTests(cases, o)
	var saved error
	if c.list != "" {
		var page bytes.Buffer
		writePage(&page, rows)
		saved = c.save(page.Bytes())
	}
	o.writeFailures(c.problems, c.logs)
	o.writeSummary(c.progress)
	for _, p := range wrong {
		fmt.Fprintln(c.problems, p)
	}
	if c.again != nil {
		o.runAgain(c.problems, c.again)
	}
	if len(wrong) > 0 { // the cause, if the table differs
		return fmt.Errorf("not conforming, problems: %d", len(wrong))
	}
	return saved
}

// runTest runs one test with a command of words.
func runTest(command, pkg, pattern string) error {
	words := append(strings.Fields(command), "-run", pattern, pkg)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		const most = 2 << 10
		return fmt.Errorf("%w: %s", err, out[max(0, len(out)-most):])
	}
	return nil
}

func write(table string, page []byte) error {
	if err := os.WriteFile(table, page, 0o644); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

func compare(table string, page []byte) error {
	old, err := os.ReadFile(table)
	if err != nil {
		return fmt.Errorf("cannot read the table: %w", err)
	}
	if !bytes.Equal(old, page) {
		return fmt.Errorf("%s is not what the tests say: run make conformance and commit it", table)
	}
	return nil
}
