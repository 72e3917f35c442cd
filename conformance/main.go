// Command conformance writes the table of the kubelet's test cases and the tests of healthd
// that cover them. It fails when an applicable case has no test or a test of it did not
// pass, and when any other test failed. With -check it writes nothing, and also fails
// when the table differs.
//
//	go test -json ──▶ readResults ──▶ assignTests ──▶ writePage ──▶ docs/conformance.md
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
)

func main() {
	check := flag.Bool("check", false, "compare with TABLE.md instead of writing it")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go test -json PACKAGE… | conformance [-check] CASES TABLE.md")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	save := write
	if *check {
		save = compare
	}
	if err := run(flag.Arg(0), os.Stdin, os.Stdout, os.Stderr, func(page []byte) error { return save(flag.Arg(1), page) }); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

// run reads the cases from the file list and the output of go test -json from stream, and
// hands the page to save. It prints each package to progress when its tests have ended, and
// failures to problems.
func run(list string, stream io.Reader, progress, problems io.Writer, save func(page []byte) error) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("cannot read the cases: %w", err)
	}
	cases, err := parseCases(list, string(text))
	if err != nil {
		return err
	}
	o, err := readResults(stream, progress)
	if err != nil {
		return err
	}
	rows, wrong := assignTests(cases, o)
	var page bytes.Buffer
	writePage(&page, rows)
	saved := save(page.Bytes())
	o.writeFailures(problems)
	for _, p := range wrong {
		fmt.Fprintln(problems, p)
	}
	if len(wrong) > 0 { // the cause, if the table differs
		return fmt.Errorf("not conforming, problems: %d", len(wrong))
	}
	return saved
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
