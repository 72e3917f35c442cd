// Command conformance writes the table of the kubelet's test cases and the tests of healthd
// that cover them. It fails when an applicable case has no test or a test of it did not
// pass, and when any other test failed.
//
//	go test -json ──▶ readResults ──▶ assignTests ──▶ writePage ──▶ docs/conformance.md
//	conformance/cases.txt ── parseCases ─┘
//
// A test names the cases that it covers: t.Attr("kubelet", "22 23").
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go test -json PACKAGE… | conformance CASES TABLE.md")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdin, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

// run reads the cases from the file list and the output of go test -json from stream, and
// writes the page to the file table. Failures of tests go to w.
func run(list, table string, stream io.Reader, w io.Writer) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("cannot read the cases: %w", err)
	}
	cases, err := parseCases(list, string(text))
	if err != nil {
		return err
	}
	o, err := readResults(stream)
	if err != nil {
		return err
	}
	rows, problems := assignTests(cases, o)
	var page bytes.Buffer
	writePage(&page, rows)
	if err := os.WriteFile(table, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	o.writeFailures(w)
	if len(problems) == 0 {
		return nil
	}
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
	return fmt.Errorf("not conforming, problems: %d", len(problems))
}
