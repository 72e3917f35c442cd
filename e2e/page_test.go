package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// pageBlock is a fenced block of a page of the documentation.
type pageBlock struct {
	language string
	line     int // of its first line
	text     string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// readPage returns the blocks of a page.
func readPage(t *testing.T, path string) []pageBlock {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []pageBlock
	for _, at := range fence.FindAllSubmatchIndex(text, -1) {
		all = append(all, pageBlock{
			language: string(text[at[2]:at[3]]),
			line:     1 + strings.Count(string(text[:at[4]]), "\n"),
			text:     string(text[at[4]:at[5]]),
		})
	}
	return all
}

// path is where the file belongs that the block is; empty: it is none. Scripts have it in their second
// line.
func (b pageBlock) path() string {
	first, rest, _ := strings.Cut(b.text, "\n")
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

// comparePage returns what is wrong with an output. In the page, a line with … alone stands for any
// lines.
func comparePage(page, output string) error {
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

func TestComparePage(t *testing.T) {
	t.Parallel()
	const output = "NAME   SINCE\nweb-1  12s\nnote\nat 2026-01-02 03:04:05 from 10.1.2.3\n"
	for _, tt := range []struct {
		page string
		same bool
	}{
		{"NAME SINCE\nweb-1  1m\nnote\nat 2027-11-12 13:14:15 from 172.18.0.2\n", true},
		{"NAME SINCE\n…\nnote\n…\n", true},
		{"…\nat 2027-11-12 13:14:15 from 172.18.0.2\n", true},
		{"NAME SINCE\n", false},
		{"note\n…\n", false},
		{"…\nnote\n", false},
		{"NAME SINCE\nweb-2  1m\n…\n", false},
		{"…\nnote\n…\nNAME SINCE\n…\n", false},
		{"", false},
	} {
		if err := comparePage(tt.page, output); (err == nil) != tt.same {
			t.Errorf("%q: %v", tt.page, err)
		}
	}
}
