package configs

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

// marked is a line of a bad file that the kubelet's cases of these numbers find wrong.
var marked = regexp.MustCompile(`# kubelet (\d+(?: \d+)*)$`)

// markedCases returns the cases that the lines of a bad file are marked with. There
// must be a problem on each of these lines.
func markedCases(t *testing.T, text string, problems Problems) []string {
	t.Helper()
	var cases []string
	line := 0
	for content := range strings.Lines(text) {
		line++
		found := marked.FindStringSubmatch(strings.TrimSuffix(content, "\n"))
		if found == nil {
			continue
		}
		cases = append(cases, strings.Fields(found[1])...)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Line == line }) {
			t.Errorf("line %d has no problem", line)
		}
	}
	slices.Sort(cases)
	return slices.Compact(cases)
}

// TestBadFiles has one file for every mistake, with its exact messages beside it.
func TestBadFiles(t *testing.T) {
	t.Chdir("testdata/bad")
	files, err := filepath.Glob("*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			_, err := Load([]string{file})
			problems, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("got error %v, want Problems", err)
			}
			for _, p := range problems {
				if p.Line == 0 {
					t.Errorf("no line: %v", p)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if cases := markedCases(t, string(text), problems); len(cases) > 0 {
				t.Attr("kubelet", strings.Join(cases, " "))
			}
			compareGolden(t, file, problems.Error()+"\n")
		})
	}
}

// compareGolden compares what is said of a file with the text beside it.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	golden := strings.TrimSuffix(file, ".toml") + ".txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
