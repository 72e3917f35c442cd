package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the texts of README and docs by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 9 {
		t.Fatalf("found %d pages, %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Clean(file)] = string(text)
	}
	return all
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	inlineCall = regexp.MustCompile("`healthd ([a-z]+)")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Each call of healthd in a shell block of the pages has a command, flags and arguments that there are. Each one
// in a text has a command.
func TestDocumentedCalls(t *testing.T) {
	calls := 0
	for page, text := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			if block[1] != "sh" {
				continue
			}
			for line := range strings.Lines(block[2]) {
				if line, _, _ = strings.Cut(line, " #"); strings.HasPrefix(line, "healthd ") {
					calls++
					checkCall(t, page, line)
				}
			}
		}
		for _, call := range inlineCall.FindAllStringSubmatch(text, -1) {
			calls++
			if _, _, err := (&app{}).rootCommand().Find(call[1:]); err != nil {
				t.Errorf("%s: healthd %s: %v", page, call[1], err)
			}
		}
	}
	if calls < 50 {
		t.Errorf("found only %d calls", calls)
	}
}

func checkCall(t *testing.T, page, line string) {
	t.Helper()
	cmd, args, err := (&app{}).rootCommand().Find(wordsOf(line)[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: %s: %v", page, line, err)
	}
}

// Each link to a file of the repository leads to one, and to a heading of it.
func TestDocumentedLinks(t *testing.T) {
	all, links := pages(t), 0
	known := map[string]map[string]bool{}
	for file, text := range all {
		known[file] = headings(text)
	}
	for page, text := range all {
		for _, found := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			target, heading, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if heading != "" && !known[file][heading] {
				t.Errorf("%s: %s has no heading %s", page, file, heading)
			}
		}
	}
	if links < 50 {
		t.Errorf("found only %d links", links)
	}
}

// headings returns the names that a page's headings have in links.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(codeBlock.ReplaceAllString(text, "")) {
		if marks, title, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Trim(marks, "#") == "" {
			all[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return all
}
