// Command conformance reads what go test -json says, finds out which tests cover which
// of the kubelet's cases, and writes the table. It fails when a case that applies to
// healthd is not covered by tests that passed, or when any other test failed.
//
// A test names the cases it covers: t.Attr("kubelet", "22 23").
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

// run writes the table of the cases in the file list, as the stream has it, to the
// file table. What went wrong in the tests goes to w.
func run(list, table string, stream io.Reader, w io.Writer) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("cannot read the cases: %w", err)
	}
	cases, err := parseCases(list, string(text))
	if err != nil {
		return err
	}
	o, err := readOutcome(stream)
	if err != nil {
		return err
	}
	rows, problems := match(cases, o)
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
