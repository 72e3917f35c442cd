package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Colours of cells, as terminals know them.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// cell is one text of a table and its colour, if any.
type cell struct{ text, colour string }

// table writes rows in columns.
type table struct {
	header   []string
	indent   string     // before each line
	width    int        // of a line at most; 0 means as wide as it gets
	flexible []flexible // are made narrower to fit, one after the other
	drop     []int      // columns to leave out, one after the other, if that is not enough
	bare     bool       // without the header
	colours  bool
	rows     [][]cell
}

// flexible is a column that may be made narrower, but not below a width. Its texts
// are cut then, or go on in the next line.
type flexible struct {
	column, least int
	wraps         bool
}

const gap = "  "

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// String returns the table. No line ends in blanks.
func (t *table) String() string {
	t.dropColumns()
	widths, _ := t.widths()
	var b strings.Builder
	header := make([]cell, len(t.header))
	for i, h := range t.header {
		header[i].text = h
	}
	if !t.bare {
		t.write(&b, header, widths)
	}
	for _, row := range t.rows {
		t.write(&b, row, widths)
	}
	return b.String()
}

// write writes a row, in as many lines as its texts need.
func (t *table) write(b *strings.Builder, row []cell, widths []int) {
	texts, height := make([][]string, len(row)), 1
	for i, c := range row {
		texts[i] = t.lines(c.text, i, widths[i])
		height = max(height, len(texts[i]))
	}
	for n := range height {
		blanks := t.indent
		for i, c := range row {
			text := ""
			if n < len(texts[i]) {
				text = texts[i][n]
			}
			if text != "" {
				b.WriteString(blanks)
				blanks = ""
			}
			b.WriteString(t.coloured(text, c.colour))
			blanks += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + gap
		}
		b.WriteByte('\n')
	}
}

func (t *table) coloured(text, colour string) string {
	if !t.colours || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}

// lines returns the lines of a text in a column of that width.
func (t *table) lines(text string, column, width int) []string {
	fits := utf8.RuneCountInString(text) <= width
	if !fits && slices.ContainsFunc(t.flexible, func(f flexible) bool { return f.column == column && f.wraps }) {
		return wrap(text, width)
	}
	return []string{shorten(text, width)}
}

// widths gives each column what its widest text needs and, where that is too much,
// takes from the flexible ones.
func (t *table) widths() (widths []int, total int) {
	widths = make([]int, len(t.header))
	total = len(t.indent) + len(gap)*(len(widths)-1)
	for i, h := range t.header {
		widths[i] = utf8.RuneCountInString(h)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
		total += widths[i]
	}
	for _, f := range t.flexible {
		if t.width > 0 && total > t.width && widths[f.column] > f.least {
			less := min(total-t.width, widths[f.column]-f.least)
			widths[f.column] -= less
			total -= less
		}
	}
	return widths, total
}

// dropColumns leaves out what cannot be shown in the width of the table.
func (t *table) dropColumns() {
	for _, column := range slices.Clone(t.drop) {
		if _, total := t.widths(); t.width == 0 || total <= t.width {
			return
		}
		t.header = slices.Delete(slices.Clone(t.header), column, column+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], column, column+1)
		}
		t.flexible = slices.DeleteFunc(slices.Clone(t.flexible), func(f flexible) bool { return f.column == column })
		for i := range t.flexible {
			if t.flexible[i].column > column {
				t.flexible[i].column--
			}
		}
	}
}
