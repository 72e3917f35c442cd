package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

const testCases = "testdata/cases.txt"

// conform runs the program over a stream with a list of cases and returns the page,
// what it wrote to stderr and its error.
func conform(t *testing.T, list, stream string) (page, stderr string, err error) {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table.md")
	var w bytes.Buffer
	c := conformance{progress: io.Discard, problems: &w, list: list, save: func(page []byte) error { return write(table, page) }}
	err = c.run(strings.NewReader(stream))
	text, readErr := os.ReadFile(table)
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(text), w.String(), err
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// golden compares with a file that -update rewrites.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, file); got != want {
		t.Errorf("%s: got:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestPass(t *testing.T) {
	stream := read(t, "testdata/pass.json")
	page, stderr, err := conform(t, testCases, stream)
	if err != nil || stderr != "" {
		t.Errorf("got error %v, stderr %q, want none", err, stderr)
	}
	golden(t, "testdata/pass.md", page)

	lines := slices.Collect(strings.Lines(stream))
	slices.Reverse(lines)
	shuffled, _, err := conform(t, testCases, strings.Join(lines, ""))
	if err != nil || shuffled != page {
		t.Errorf("in another order: error %v, got:\n%s\nwant:\n%s", err, shuffled, page)
	}
}

// Each package is printed when its tests have ended, even if the stream breaks off later.
func TestProgress(t *testing.T) {
	stream := read(t, "testdata/pass.json")
	if last := strings.LastIndex(strings.TrimSpace(stream), "\n"); last > 0 {
		stream = stream[:last+1]
	}
	var progress bytes.Buffer
	c := conformance{progress: &progress, problems: io.Discard, list: testCases, save: func([]byte) error { return nil }}
	err := c.run(strings.NewReader(stream))
	if err == nil {
		t.Error("got no error")
	}
	if got, want := progress.String(), "ok  \thealthd/prober\t1.013s\nok  \thealthd/supervisor/api\t1.011s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The summary has what took long, and ends with how many tests there were.
func TestSummary(t *testing.T) {
	var progress bytes.Buffer
	c := conformance{progress: &progress, problems: io.Discard} // without cases
	if err := c.run(strings.NewReader(read(t, "testdata/slow.json"))); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/slow.txt", progress.String())
}

// What failed runs again, by itself and alone; that it passes then is told, and does not count.
func TestAgain(t *testing.T) {
	var problems bytes.Buffer
	var ran []string
	c := conformance{progress: io.Discard, problems: &problems, again: func(pkg, pattern string) error {
		ran = append(ran, pkg+" "+pattern)
		if strings.Contains(pattern, "TestRefused") {
			return errors.New("exit status 1")
		}
		return nil
	}}
	if err := c.run(strings.NewReader(read(t, "testdata/fail.json"))); err == nil {
		t.Error("got no error")
	}
	golden(t, "testdata/again.txt", strings.Join(ran, "\n")+"\n"+problems.String())
}

// What a failed test prints is kept as a whole. The report has its two ends, and the beginnings of long lines.
func TestLongOutputIsKept(t *testing.T) {
	var stream, want strings.Builder
	event := func(action, output string) {
		text, _ := json.Marshal(map[string]string{"Action": action, "Package": "healthd/e2e/faults", "Test": "TestFlood/many", "Output": output})
		fmt.Fprintf(&stream, "%s\n", text)
	}
	for i := range 1000 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%2*2000))
		want.WriteString(line)
		event("output", line)
	}
	event("fail", "")
	fmt.Fprintln(&stream, `{"Action":"fail","Package":"healthd/e2e/faults"}`)
	var problems bytes.Buffer
	dir := t.TempDir()
	c := conformance{progress: io.Discard, problems: &problems, logs: dir}
	if err := c.run(strings.NewReader(stream.String())); err == nil || !strings.HasPrefix(err.Error(), "not conforming") {
		t.Error(err)
	}
	file := filepath.Join(dir, "e2e_faults.TestFlood_many.log")
	if got := read(t, file); got != want.String() {
		t.Errorf("kept are %d bytes of %d", len(got), want.Len())
	}
	got := problems.String()
	for _, part := range []string{"line 0 \n", "line 999 xxx", "… 941 lines …", file} {
		if !strings.Contains(got, part) {
			t.Errorf("the report lacks %q", part)
		}
	}
	if len(got) > 40<<10 {
		t.Errorf("the report has %d bytes", len(got))
	}
}

// With -check an outdated table is an error. The table stays as it is.
func TestCheck(t *testing.T) {
	page := read(t, "testdata/pass.md")
	for _, c := range []struct {
		name, stream, table string
		want                string
	}{
		{"same", "testdata/pass.json", page, ""},
		{"another", "testdata/pass.json", page + "| 5 |\n", "is not what the tests say: run make conformance and commit it"},
		{"failed", "testdata/fail.json", page, "not conforming, problems: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table.md")
			if err := os.WriteFile(table, []byte(c.table), 0o644); err != nil {
				t.Fatal(err)
			}
			of := conformance{progress: io.Discard, problems: io.Discard, list: testCases, save: func(page []byte) error { return compare(table, page) }}
			err := of.run(strings.NewReader(read(t, c.stream)))
			if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if got := read(t, table); got != c.table {
				t.Errorf("the table became:\n%s", got)
			}
		})
	}
	if err := compare(filepath.Join(t.TempDir(), "none.md"), []byte(page)); err == nil || !strings.Contains(err.Error(), "cannot read the table: ") {
		t.Errorf("without a table: got error %v", err)
	}
}

func TestFail(t *testing.T) {
	page, stderr, err := conform(t, testCases, read(t, "testdata/fail.json"))
	if err == nil {
		t.Error("got no error")
	}
	golden(t, "testdata/fail.md", page)
	golden(t, "testdata/fail.stderr", stderr)
}

// Each row spoils the stream of TestPass in one way.
func TestProblems(t *testing.T) {
	const pipe = `"Test":"TestHTTP/pipe_|_star_*"`
	for _, c := range []struct {
		name, old, new string
		want, row      string
	}{
		{"case without test", `"Key":"kubelet","Value":"2 3"`, `"Key":"kubelet","Value":"3"`,
			"case 2 has no test: Accept is */* (own product token)\n", "| 2 | Accept is \\*/\\* (own product token) |  | FAIL |\n"},
		{"failed", `"Action":"pass","Package":"healthd/prober",` + pipe, `"Action":"fail","Package":"healthd/prober",` + pipe,
			"case 2: prober.TestHTTP/pipe_|_star_* failed\n", "prober.TestHTTP/pipe_\\|_star_\\* | FAIL |\n"},
		{"skipped", `"Action":"pass","Package":"healthd/prober",` + pipe, `"Action":"skip","Package":"healthd/prober",` + pipe,
			"case 2: prober.TestHTTP/pipe_|_star_* was skipped\n", "prober.TestHTTP/pipe_\\|_star_\\* | FAIL |\n"},
		{"part skipped", `"Action":"pass","Package":"healthd/supervisor/api","Test":"TestStatus/part"`, `"Action":"skip","Package":"healthd/supervisor/api","Test":"TestStatus/part"`,
			"case 1: supervisor/api.TestStatus/part was skipped\n", "supervisor/api.TestStatus | FAIL |\n"},
		{"not ended", `"Action":"pass","Package":"healthd/supervisor/api","Test":"TestStatus"`, `"Action":"pause","Package":"healthd/supervisor/api","Test":"TestStatus"`,
			"case 1: supervisor/api.TestStatus did not finish\n", "supervisor/api.TestStatus | FAIL |\n"},
		{"unknown number", `"Value":"2 3"`, `"Value":"2 3 5"`,
			"prober.TestHTTP/pipe_|_star_* names case 5, which is not in the list\n", ""},
		{"number zero", `"Value":"2 3"`, `"Value":"2 3 0"`,
			"prober.TestHTTP/pipe_|_star_* names case 0, which is not in the list\n", ""},
		{"no number", `"Value":"2 3"`, `"Value":"2,3"`,
			"prober.TestHTTP/pipe_|_star_* names case 2,3, which is not in the list\n", ""},
		{"empty", `"Key":"kubelet","Value":"2 3"`, `"Key":"kubelet"`,
			"prober.TestHTTP/pipe_|_star_* has an attribute kubelet that names no case\n", ""},
		{"case that does not apply", `"Value":"2 3"`, `"Value":"2 3 4"`,
			"prober.TestHTTP/pipe_|_star_* names case 4, which does not apply: no sandbox\n", "| 4 | a sandbox |  | n/a: no sandbox |\n"},
		{"other test failed", `"Action":"pass","Package":"healthd/prober","Test":"TestPlain"`, `"Action":"fail","Package":"healthd/prober","Test":"TestPlain"`,
			"--- prober.TestPlain failed:\n--- PASS: TestPlain (0.00s)\n\nprober.TestPlain failed\n", "prober.TestHTTP/pipe_\\|_star_\\* | pass |\n"},
		{"package failed", `"Action":"pass","Package":"healthd/prober","Elapsed"`, `"Action":"fail","Package":"healthd/prober","Elapsed"`,
			"\npackage prober failed\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := read(t, "testdata/pass.json")
			if !strings.Contains(stream, c.old) {
				t.Fatalf("there is no %s in the stream", c.old)
			}
			page, stderr, err := conform(t, testCases, strings.Replace(stream, c.old, c.new, 1))
			if err == nil {
				t.Error("got no error")
			}
			if !strings.Contains(stderr, c.want) {
				t.Errorf("stderr: got:\n%s\nwant in it: %s", stderr, c.want)
			}
			if page == "" || !strings.Contains(page, c.row) {
				t.Errorf("page: got:\n%s\nwant in it: %s", page, c.row)
			}
		})
	}
}

// A stream that may not tell of all tests makes no page.
func TestBrokenStream(t *testing.T) {
	pass := read(t, "testdata/pass.json")
	for _, c := range []struct{ name, stream, want string }{
		{"build failed", read(t, "testdata/build.json"), "supervisor/api/b_test.go:3:13: cannot use \"y\""},
		{"empty", "", "the output of go test -json is empty"},
		{"no JSON", "ok  \thealthd/prober\t1.0s\n", "ok  \thealthd/prober\t1.0s\n"},
		{"no JSON in the middle", pass + "go: no space left\n" + pass, "go: no space left\n"},
		{"other JSON", "{}\n", "a line in it is not an event"},
		{"cut within an event", pass[:len(pass)/2], "unexpected EOF"},
		{"cut between events", pass[:strings.LastIndex(strings.TrimSpace(pass), "\n")+1], "ends before package supervisor/api does"},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, _, err := conform(t, testCases, c.stream)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want in it: %s", err, c.want)
			}
			if page != "" {
				t.Errorf("got a page:\n%s", page)
			}
		})
	}
}

func TestBadCases(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no number", "one = x", `f:1: must begin with a number, is "one"`},
		{"no tag", "# comment\n1 text", `f:2: the tag must be =, ~ or -, is "text"`},
		{"no text", "1 =", "f:1: case 1 has no text"},
		{"no reason", "1 - x |", "f:1: case 1 does not apply, but has no reason"},
		{"reason too many", "1 = x | y", "f:1: case 1 applies, but has a reason why not"},
		{"gap", "1 = x\n3 = y", "f:2: the number is 3, must be 2"},
		{"twice", "1 = x\n1 = y", "f:2: the number is 1, must be 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parseCases("f", c.text); err == nil || err.Error() != c.want {
				t.Errorf("got error %v, want %s", err, c.want)
			}
		})
	}
}

// The list itself. That its numbers go up one by one, that each has a text and each
// that does not apply a reason is seen to by parseCases.
func TestCases(t *testing.T) {
	cases, err := parseCases("cases.txt", read(t, "cases.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(cases), 266; got != want {
		t.Errorf("got %d cases, want %d", got, want)
	}
}
