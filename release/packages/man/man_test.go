package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const docs = "../../../docs"

// The pages of this repository become pages with which man and mandoc find nothing wrong.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	dir := t.TempDir()
	if err := writeAll(docs, dir, "0.1.0", "1700000000"); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		file := filepath.Join(dir, p.name+"."+p.section)
		if out, err := exec.Command("mandoc", "-Tlint", "-Wwarning", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("mandoc: %v\n%s", err, out)
		}
		man := exec.Command("man", "--warnings", "-l", file)
		man.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80", "MANROFFSEQ=", "PAGER=cat")
		var wrong strings.Builder
		man.Stderr = &wrong
		shown, err := man.Output()
		if err != nil || wrong.Len() > 0 {
			t.Errorf("man: %v\n%s", err, &wrong)
		}
		for _, want := range []string{strings.ToUpper(p.name) + "(" + p.section + ")", "healthd 0.1.0", "2023-11-14", p.name + " - " + p.is, "SEE ALSO"} {
			if !strings.Contains(string(shown), want) {
				t.Errorf("%s does not have %q", p.name, want)
			}
		}
		keepsAll(t, p, string(shown))
	}
}

var inCode = regexp.MustCompile("`([^`\n]+)`")

// keepsAll checks that nothing of the page is lost that somebody looks up: its code.
func keepsAll(t *testing.T, p page, shown string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, p.source))
	if err != nil {
		t.Fatal(err)
	}
	plain := func(s string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(s, "\u2010\n", "-")), "")
	}
	shown = plain(regexp.MustCompile("\u2010\n *").ReplaceAllString(shown, ""))
	checked := 0
	want := func(code string) {
		checked++
		// A - at the end of a line and one that breaks a word look the same.
		if !strings.Contains(strings.ReplaceAll(shown, "-", ""), strings.ReplaceAll(plain(code), "-", "")) {
			t.Errorf("%s(%s) has lost %q", p.name, p.section, code)
		}
	}
	for _, block := range fence.FindAllString(string(text), -1) {
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "```") {
				want(line)
			}
		}
	}
	for _, code := range inCode.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		want(strings.ReplaceAll(code[1], `\|`, "|"))
	}
	if checked < 60 {
		t.Errorf("%s has only %d pieces of code", p.source, checked)
	}
}

func TestMarkdown(t *testing.T) {
	p := page{name: "x", section: "1", is: "a thing", synopsis: "x"}
	const page = "# Title\n\n<!-- not shown -->\n## Part one\n\nSee [the\nother](#part) and [a page](../README.md#x), [site](https://example.org).\n" +
		"\n| key | default | meaning |\n|---|---|---|\n| `a` | `1` | one `\\|` two |\n| `b` | required | |\n" +
		"\n| a | from | to |\n|---|---|---|\n| x | here | there |\n\n```toml\n## no [heading](x)\n| no | table |\n```\nend\n"
	got, err := p.markdown(page, "1.2.3", "2026-01-31")
	const want = "\n## PART ONE\n\nSee the\nother and a page (README.md), site (https://example.org).\n\n" +
		"`a` (default: `1`)\n: one `|` two\n\n`b` (required)\n: as the name says\n\n\nx\n: from: here; to: there\n\n\n" +
		"\n```toml\n## no [heading](x)\n| no | table |\n```\nend\n"
	if err != nil || !strings.Contains(got, want) || strings.Contains(got, "not shown") {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := p.markdown("# T\n\n| a | b |\n|---|---|\n| `x|y` | z |\n", "1", "d"); err == nil || !strings.Contains(err.Error(), "it has 3 cells, not 2") {
		t.Errorf("a | in a cell: %v", err)
	}
}

func TestBadCalls(t *testing.T) {
	if err := writeAll(docs, t.TempDir(), "0.1.0", "soon"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("no time: %v", err)
	}
	if err := writeAll(t.TempDir(), t.TempDir(), "0.1.0", "1"); err == nil || !strings.HasPrefix(err.Error(), "cannot write healthd(1): ") {
		t.Errorf("no pages: %v", err)
	}
}
