package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	comment  = regexp.MustCompile(`(?m)^<!--.*?-->\n`)
	fence    = regexp.MustCompile("(?ms)^```.*?^```\n")
	linkForm = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	cellEnd  = regexp.MustCompile(`(?:^|[^\\])\|`)
)

// markdown returns a page of docs/ as a manual page wants it: with its sections in capitals, lists of
// terms for tables, and links that can be read on paper.
func (p *page) markdown(text, version, date string) (string, error) {
	_, text, _ = strings.Cut(text, "\n") // without the title
	text = comment.ReplaceAllString(text, "")
	var b strings.Builder
	fmt.Fprintf(&b, "%% %q %q %q %q %q\n\n", strings.ToUpper(p.name), p.section, date, "healthd "+version, "healthd")
	fmt.Fprintf(&b, "## NAME\n\n%s - %s\n\n## SYNOPSIS\n\n%s\n\n## DESCRIPTION\n", p.name, p.is, p.synopsis)
	at := 0
	for _, code := range append(fence.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		if err := prose(&b, text[at:code[0]]); err != nil {
			return "", err
		}
		b.WriteString(text[code[0]:code[1]])
		at = code[1]
	}
	fmt.Fprintf(&b, "\n## SEE ALSO\n\n%s\n\n%s\n", p.seeAlso,
		"The pages (NAME.md) that are named here are in the directory of healthd's documents, such as /usr/share/doc/healthd/docs.")
	return b.String(), nil
}

// prose rewrites text without code blocks.
func prose(b *strings.Builder, text string) error {
	var table []string
	for line := range strings.Lines(unlink(text) + "\n") {
		if strings.HasPrefix(line, "|") {
			table = append(table, strings.TrimSpace(line))
			continue
		}
		if err := terms(b, table); err != nil {
			return err
		}
		table = nil
		if strings.HasPrefix(line, "## ") {
			line = strings.ToUpper(line)
		}
		b.WriteString(line)
	}
	return nil
}

// unlink names the page that a link leads to, and not where in this page one does.
func unlink(text string) string {
	return linkForm.ReplaceAllStringFunc(text, func(link string) string {
		found := linkForm.FindStringSubmatch(link)
		switch file, _, _ := strings.Cut(found[2], "#"); {
		case file == "":
			return found[1]
		case strings.Contains(file, "://"):
			return found[1] + " (" + found[2] + ")"
		default:
			return found[1] + " (" + strings.TrimPrefix(file, "../") + ")"
		}
	})
}

// terms writes a table as a list of terms: the first column, with its default if there is one,
// and below it what the others say.
func terms(b *strings.Builder, table []string) error {
	if len(table) == 0 {
		return nil
	}
	heads := cells(table[0])
	for _, line := range table[min(2, len(table)):] {
		row := cells(line)
		if len(row) != len(heads) || len(row) < 2 {
			return fmt.Errorf(`cannot read the row %s: it has %d cells, not %d: write \| for a | in a cell`, line, len(row), len(heads))
		}
		term, about := row[0], []string{}
		for i, cell := range row[1:] {
			switch head := heads[i+1]; {
			case cell == "":
			case head == "default" && cell == "required":
				term += " (required)"
			case head == "default":
				term += " (default: " + cell + ")"
			case len(row) == 2, head == "meaning":
				about = append(about, cell)
			default:
				about = append(about, head+": "+cell)
			}
		}
		if len(about) == 0 {
			about = []string{"as the name says"}
		}
		fmt.Fprintf(b, "%s\n: %s\n\n", term, strings.Join(about, "; "))
	}
	return nil
}

// cells returns the cells of a row.
func cells(row string) []string {
	var all []string
	row = strings.TrimPrefix(row, "|")
	for row != "" {
		end := cellEnd.FindStringIndex(row)
		if end == nil {
			break
		}
		all = append(all, strings.TrimSpace(strings.ReplaceAll(row[:end[1]-1], `\|`, "|")))
		row = row[end[1]:]
	}
	return all
}
