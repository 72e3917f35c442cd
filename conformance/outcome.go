package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	module = "healthd/"
	key    = "kubelet" // of the attribute with which a test names cases
)

// event is a line of go test -json. (go doc test2json)
type event struct {
	Action, Package, Test, Output, Key, Value string
}

// result is how a test ended, the better before the worse.
type result int

const (
	unfinished result = iota
	passed
	skipped
	failed
)

// String says what the test did.
func (r result) String() string {
	return [...]string{"did not come to its end", "passed", "was skipped", "failed"}[r]
}

// test is what became of one test, or of a package, which has no name.
type test struct {
	pkg, name string
	result    result
	named     []string // the values of its attributes
	output    strings.Builder
}

// String returns package.TestName/sub.
func (t *test) String() string {
	if t.name == "" {
		return "package " + t.pkg
	}
	return t.pkg + "." + t.name
}

// failed says whether the test failed, or died on the way.
func (t *test) failed() bool { return t.result == failed || t.result == unfinished }

// has says whether part is a test within t.
func (t *test) has(part *test) bool {
	return t.pkg == part.pkg && t != part && (t.name == "" || strings.HasPrefix(part.name, t.name+"/"))
}

// outcome is what became of all tests, sorted by package and name. What it says must
// not depend on the order in which they ran.
type outcome []*test

type outcomeKey struct{ pkg, name string }

// readOutcome reads the stream to its end. One that may not tell of all tests is an
// error.
func readOutcome(r io.Reader) (outcome, error) {
	tests := map[outcomeKey]*test{}
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
			take(tests, e)
		}
	}
	if cannotBuild {
		return nil, fmt.Errorf("cannot build the tests:\n%s", build.String())
	}
	o := outcome(slices.SortedFunc(maps.Values(tests), func(a, b *test) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	}))
	return o, o.whole()
}

func nextEvent(dec *json.Decoder) (event, error) {
	var e event
	err := dec.Decode(&e)
	if err == nil && e.Action == "" {
		err = errors.New("there is something else in it")
	}
	return e, err
}

// take adds an event to the test that it is about.
func take(tests map[outcomeKey]*test, e event) {
	k := outcomeKey{strings.TrimPrefix(e.Package, module), e.Test}
	t := tests[k]
	if t == nil {
		t = &test{pkg: k.pkg, name: k.name}
		tests[k] = t
	}
	switch e.Action {
	case "attr":
		if e.Key == key {
			t.named = append(t.named, e.Value)
		}
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output.WriteString(e.Output)
		}
	case "pass": // with -count a test has several ends, and the worst counts
		t.result = max(t.result, passed)
	case "skip":
		t.result = max(t.result, skipped)
	case "fail":
		t.result = max(t.result, failed)
	}
}

// whole is an error when the stream was cut off.
func (o outcome) whole() error {
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
		return errors.New("cannot judge: go test -json said nothing")
	}
	return nil
}

// writeFailures writes the output of all that failed. The output of its package has
// the seed of the shuffle.
func (o outcome) writeFailures(w io.Writer) {
	for _, t := range o {
		if t.failed() {
			fmt.Fprintf(w, "--- %v %s:\n%s\n", t, t.result, t.output.String())
		}
	}
}

// verdict says whether t shows its cases and, if not, why. One that skipped a part of
// itself does not.
func (o outcome) verdict(t *test) (pass bool, why string) {
	if t.result == passed {
		for _, part := range o {
			if t.has(part) && part.result == skipped {
				return false, fmt.Sprintf("%v %v", part, part.result)
			}
		}
	}
	return t.result == passed, fmt.Sprintf("%v %v", t, t.result)
}

// blamed says whether t failed, and not only because a part of it did.
func (o outcome) blamed(t *test) bool {
	return t.failed() && !slices.ContainsFunc(o, func(part *test) bool { return t.has(part) && part.failed() })
}
