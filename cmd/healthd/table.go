package main

import (
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
	width    int        // of a line at most; 0 means as wide as it gets
	flexible []flexible // are shortened to fit, one after the other
	colours  bool
	rows     [][]cell
}

// flexible is a column that may be shortened, but not below a width.
type flexible struct{ column, least int }

const gap = "  "

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// String returns the table. The last column is not padded.
func (t *table) String() string {
	widths := t.widths()
	var b strings.Builder
	header := make([]cell, len(t.header))
	for i, h := range t.header {
		header[i].text = h
	}
	t.write(&b, header, widths)
	for _, row := range t.rows {
		t.write(&b, row, widths)
	}
	return b.String()
}

func (t *table) write(b *strings.Builder, row []cell, widths []int) {
	for i, c := range row {
		text := shorten(c.text, widths[i])
		if i > 0 {
			b.WriteString(gap)
		}
		if t.colours && c.colour != "" {
			b.WriteString(c.colour + text + plain)
		} else {
			b.WriteString(text)
		}
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)))
		}
	}
	b.WriteByte('\n')
}

// widths gives each column what its widest text needs and, where that is too much,
// takes from the flexible ones.
func (t *table) widths() []int {
	widths := make([]int, len(t.header))
	total := len(gap) * (len(widths) - 1)
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
	return widths
}
