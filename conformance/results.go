package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module = "healthd/"
	key    = "kubelet" // of the attribute with which a test names cases
)

// event is a line of go test -json. (go doc test2json)
type event struct {
	Action, Package, Test, Output, Key, Value string
	Elapsed                                   float64 // seconds, with pass, fail and skip
	Path                                      string  // with artifacts
}

// result is how a test ended; a worse one is greater.
type result int

const (
	unfinished result = iota
	passed
	skipped
	failed
)

// String completes a sentence about the test.
func (r result) String() string {
	return [...]string{"did not finish", "passed", "was skipped", "failed"}[r]
}

// testResult is the result of one test, or of a package, which has no name.
type testResult struct {
	pkg, name string
	result    result
	elapsed   time.Duration
	kept      string   // where a failed test has left logs; empty: nowhere
	caseAttrs []string // the values of its attributes
	output    strings.Builder
}

// String returns package.TestName/sub.
func (t *testResult) String() string {
	if t.name == "" {
		return "package " + t.pkg
	}
	return t.pkg + "." + t.name
}

// failed says whether the test failed or did not finish.
func (t *testResult) failed() bool { return t.result == failed || t.result == unfinished }

// complaint is a line that a test itself wrote: its place and the text.
var complaint = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// complaints returns the first lines that the test itself wrote, shortened, and where it has left logs: of a long run
// perhaps only the end is read.
func (t *testResult) complaints() string {
	const lines, bytes = 5, 300
	var b strings.Builder
	n := 0
	for line := range strings.Lines(t.output.String()) {
		if line = strings.TrimRight(line, "\n"); n < lines && complaint.MatchString(line) {
			b.WriteString("\n" + line[:min(len(line), bytes)])
			n++
		}
	}
	if t.kept != "" {
		b.WriteString("\n    logs: " + t.kept)
	}
	return b.String()
}

// contains says whether part is a subtest of t, or a test of the package t.
func (t *testResult) contains(part *testResult) bool {
	return t.pkg == part.pkg && t != part && (t.name == "" || strings.HasPrefix(part.name, t.name+"/"))
}

// testResults are the results of all tests, sorted by package and name, so that the page
// does not depend on the order in which they ran.
type testResults []*testResult

type testKey struct{ pkg, name string }

// readResults reads the stream to its end and prints each package to progress when its
// tests have ended. An incomplete stream is an error.
func readResults(r io.Reader, progress io.Writer) (testResults, error) {
	tests := map[testKey]*testResult{}
	var build strings.Builder
	cannotBuild := false
	dec := json.NewDecoder(r)
	for {
		e, err := nextEvent(dec)
		if err == io.EOF {
			break
		}
		if err != nil {
			rest, _ := io.ReadAll(io.LimitReader(io.MultiReader(dec.Buffered(), r), 4<<10))
			return nil, fmt.Errorf("cannot read the output of go test -json: %w\n%s%s", err, build.String(), rest)
		}
		switch e.Action {
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			cannotBuild = true
		default:
			if e.Test == "" && strings.Contains(e.Output, "\t"+e.Package) {
				fmt.Fprint(progress, e.Output)
			}
			addEvent(tests, e)
		}
	}
	if cannotBuild {
		return nil, fmt.Errorf("cannot build the tests:\n%s", build.String())
	}
	o := testResults(slices.SortedFunc(maps.Values(tests), func(a, b *testResult) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	}))
	return o, o.checkComplete()
}

func nextEvent(dec *json.Decoder) (event, error) {
	var e event
	err := dec.Decode(&e)
	if err == nil && e.Action == "" {
		err = errors.New("a line in it is not an event")
	}
	return e, err
}

// addEvent adds an event to the result of its test.
func addEvent(tests map[testKey]*testResult, e event) {
	k := testKey{strings.TrimPrefix(e.Package, module), e.Test}
	t := tests[k]
	if t == nil {
		t = &testResult{pkg: k.pkg, name: k.name}
		tests[k] = t
	}
	t.elapsed += time.Duration(e.Elapsed * float64(time.Second))
	switch e.Action {
	case "attr":
		if e.Key == key {
			t.caseAttrs = append(t.caseAttrs, e.Value)
		}
	case "artifacts":
		t.kept = e.Path
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output.WriteString(e.Output)
		}
	case "pass": // with -count a test ends several times, and the worst result counts
		t.result = max(t.result, passed)
	case "skip":
		t.result = max(t.result, skipped)
	case "fail":
		t.result = max(t.result, failed)
	}
}

// checkComplete returns an error when the stream was cut off.
func (o testResults) checkComplete() error {
	packages := 0
	for _, t := range o {
		if t.name != "" {
			continue
		}
		packages++
		if t.result == unfinished {
			return fmt.Errorf("cannot judge: the output of go test -json ends before %v does", t)
		}
	}
	if packages == 0 {
		return errors.New("cannot judge: the output of go test -json is empty")
	}
	return nil
}

// writeFailures writes the output of failed tests, and of their packages, which has the
// seed of -shuffle.
func (o testResults) writeFailures(w io.Writer, logs string) {
	for _, t := range o {
		if !t.failed() {
			continue
		}
		output := t.output.String()
		if short := shortened(output); logs != "" && len(short) < len(output) {
			file := filepath.Join(logs, strings.ReplaceAll(fmt.Sprint(t), "/", "_")+".log")
			if err := os.WriteFile(file, []byte(output), 0o644); err != nil {
				short, file = output, err.Error()
			}
			output = fmt.Sprintf("%s(whole: %s)\n", short, file)
		}
		fmt.Fprintf(w, "--- %v %s:\n%s\n", t, t.result, output)
	}
}

// shortened returns the first and the last lines of a text, and what each begins with.
func shortened(text string) string {
	const ends, bytes = 30, 500
	lines := strings.SplitAfter(text, "\n")
	if over := len(lines) - 2*ends; over > 0 {
		lines = slices.Concat(lines[:ends], []string{fmt.Sprintf("… %d lines …\n", over)}, lines[len(lines)-ends:])
	}
	for i, line := range lines {
		if len(line) > bytes {
			lines[i] = line[:bytes] + "…\n"
		}
	}
	return strings.Join(lines, "")
}

// verdict says whether t covers its cases and, if not, why. A test with a skipped subtest
// does not.
func (o testResults) verdict(t *testResult) (pass bool, why string) {
	if t.result == passed {
		for _, part := range o {
			if t.contains(part) && part.result == skipped {
				return false, fmt.Sprintf("%v %v", part, part.result)
			}
		}
	}
	return t.result == passed, fmt.Sprintf("%v %v", t, t.result)
}

// failedItself says whether t failed, and not only because a subtest did.
func (o testResults) failedItself(t *testResult) bool {
	return t.failed() && !slices.ContainsFunc(o, func(part *testResult) bool { return t.contains(part) && part.failed() })
}
