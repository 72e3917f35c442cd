// Package pagetest reads the pages of the documentation for the tests that play them: write their files,
// run their commands, and compare what these print.
package pagetest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of a page of the documentation.
type Block struct {
	Language string
	Line     int // of its first line
	Text     string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// Read returns the blocks of a page.
func Read(t testing.TB, path string) []Block {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Block
	for _, at := range fence.FindAllSubmatchIndex(text, -1) {
		all = append(all, Block{
			Language: string(text[at[2]:at[3]]),
			Line:     1 + strings.Count(string(text[:at[4]]), "\n"),
			Text:     string(text[at[4]:at[5]]),
		})
	}
	return all
}

// Path is where the file belongs that the block is; empty: it is none. Scripts have it in their second
// line.
func (b Block) Path() string {
	first, rest, _ := strings.Cut(b.Text, "\n")
	if strings.HasPrefix(first, "#!") {
		first, _, _ = strings.Cut(rest, "\n")
	}
	path, ok := strings.CutPrefix(first, "# /")
	if !ok || strings.Contains(path, " ") {
		return ""
	}
	return "/" + path
}

// runVaries has what differs from run to run, in the order in which it is replaced.
var runVaries = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "ADDRESS"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|s|m|h|d))+( ago)?(\s|\)|,|:|;|$)`), "DURATION$4$5"},
	{regexp.MustCompile(`\b\d+ (success(?:es)?|failures?) in a row`), "N in a row"},
	{regexp.MustCompile(`\s+`), " "},
}

// normalised is a text without what differs from run to run, and in one line: how wide columns are
// depends on that.
func normalised(text string) string {
	for _, n := range runVaries {
		text = n.pattern.ReplaceAllString(text, n.by)
	}
	return strings.TrimSpace(text)
}

// Compare returns what is wrong with an output. In the page, a line with … alone stands for any
// lines.
func Compare(page, output string) error {
	rest, left := normalised(output), false
	for part := range strings.SplitSeq(page, "…\n") {
		want := normalised(part)
		at := strings.Index(rest, want)
		if at < 0 || at > 0 && !left {
			return fmt.Errorf("the page has\n  %s\nthe output is\n%s\nof which this is left:\n  %s", want, output, rest)
		}
		rest, left = strings.TrimSpace(rest[at+len(want):]), true
	}
	if rest != "" && !strings.HasSuffix(page, "…\n") {
		return fmt.Errorf("the page ends, and the output goes on with\n  %s\nThe output is\n%s", rest, output)
	}
	return nil
}
