package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const troublePage = "../../docs/troubleshooting.md"

// pageSection is one symptom of docs/troubleshooting.md.
type pageSection struct {
	heading string
	text    string
	shown   []shownCommand
}

// shownCommand is a command of a console block, and the lines that the page quotes of its output.
type shownCommand struct {
	command string
	lines   []string
}

// readTroubles returns the symptoms of the page, and what stands before the first of them.
func readTroubles(t *testing.T) (all []pageSection, preface string) {
	t.Helper()
	text, err := os.ReadFile(troublePage)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split("\n"+string(text), "\n### ")
	for _, s := range sections[1:] {
		heading, rest, _ := strings.Cut(s, "\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		all = append(all, pageSection{heading: heading, text: rest, shown: shownCommands(rest)})
	}
	return all, sections[0]
}

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// shownCommands reads the console blocks of a text.
func shownCommands(text string) []shownCommand {
	var all []shownCommand
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimRight(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, shownCommand{command: command})
			} else if n := len(all); n > 0 && strings.TrimSpace(line) != "" {
				all[n-1].lines = append(all[n-1].lines, line)
			}
		}
	}
	return all
}

// anchor is the name of a heading in links.
func anchor(heading string) string {
	dropped := regexp.MustCompile("[^a-z0-9 _-]")
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// What differs from one time to the next, and what stands for it.
var varying = []struct {
	what *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b(10|172|192)(\.\d{1,3}){3}\b`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9a-f]{12}([0-9a-f]{52})?\b`), "ID"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|ns|h|m|s|d))+\b`), "DURATION"},
	{regexp.MustCompile(`\.toml:\d+`), ".toml:N"},
	{regexp.MustCompile(`\b\d+ (more )?(failure|success)(es|s)?\b`), "N $2"},
	{regexp.MustCompile(`\(x\d+ since`), "(xN since"},
}

// normal is a line without what differs from one time to the next.
func normal(line string) string {
	for _, v := range varying {
		line = v.what.ReplaceAllString(line, v.word)
	}
	return strings.Join(strings.Fields(line), " ")
}

// occur returns nil when all lines occur in the output, in this order. In a line, … stands for
// any text.
func occur(lines []string, output string) error {
	rest := strings.Split(output, "\n")
	for _, line := range lines {
		var pieces []string
		for piece := range strings.SplitSeq(line, "…") {
			pieces = append(pieces, regexp.QuoteMeta(normal(piece)))
		}
		wanted := regexp.MustCompile("^" + strings.Join(pieces, ".*") + "$")
		at := 0
		for at < len(rest) && !wanted.MatchString(normal(rest[at])) {
			at++
		}
		if at == len(rest) {
			return fmt.Errorf("the output has no line %q in its place", line)
		}
		rest = rest[at+1:]
	}
	return nil
}

func TestLinesOfAPage(t *testing.T) {
	const output = "NAME        READY  SINCE\nshop-web-1  no     17s\n\nwarning: at 2026-11-23 17:00:00 from 172.18.0.5:8080, 12 failures in a row\n"
	for name, c := range map[string]struct {
		lines string
		occur bool
	}{
		"the same":               {"shop-web-1  no     17s", true},
		"another duration":       {"shop-web-1  no     2m3s", true},
		"other columns":          {"shop-web-1 no 17s", true},
		"another word":           {"shop-web-1 yes 17s", false},
		"another number":         {"shop-web-2 no 17s", false},
		"a part":                 {"shop-web-1", false},
		"a marked part":          {"shop-web-1 …", true},
		"both, in order":         {"NAME …\nshop-web-1 …", true},
		"both, out of order":     {"shop-web-1 …\nNAME …", false},
		"twice":                  {"shop-web-1 …\nshop-web-1 …", false},
		"time, address, failure": {"warning: at 2027-01-02 03:04:05 from 10.0.0.1:8080, 3 failures in a row", true},
		"another port":           {"warning: at 2027-01-02 03:04:05 from 10.0.0.1:80, 3 failures in a row", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := occur(strings.Split(c.lines, "\n"), output); (err == nil) != c.occur {
				t.Errorf("got %v, want that they occur: %v", err, c.occur)
			}
		})
	}
}
