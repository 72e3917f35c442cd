package runtime

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func textsOf(l Log) []string {
	var texts []string
	for _, line := range l.Lines {
		texts = append(texts, line.Text)
	}
	return texts
}

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		name, written string
		bytes, lines  int
		want          []string
		cut           bool
	}{
		{"nothing", "", 10, 3, nil, false},
		{"few lines", "a\nb\n", 10, 3, []string{"a", "b"}, false},
		{"an unfinished line", "a\nb", 10, 3, []string{"a", "b"}, false},
		{"too many lines", "a\nb\nc\nd\n", 10, 3, []string{"b", "c", "d"}, false},
		{"too many bytes", "aaaaaaaaaa\nbb\ncc\n", 8, 3, []string{"a", "bb", "cc"}, true},
		{"too many of both", "aaaaaaaaaa\nbb\ncc\n", 8, 2, []string{"bb", "cc"}, false},
		{"no line break", strings.Repeat("x", 100), 8, 3, []string{"xxxxxxxx"}, true},
		{"a terminal's lines", "a\r\nb\r\n", 10, 3, []string{"a", "b"}, false},
		{"no text", "a\xff\n", 10, 3, []string{"a\uFFFD"}, false},
		{"empty lines", "\n\n", 10, 3, []string{"", ""}, false},
	} {
		for _, size := range []int{1, 3, 1000} { // of each Write
			tail := NewTail(tt.bytes)
			for chunk := range slices.Chunk([]byte(tt.written), size) {
				tail.Write(chunk)
			}
			l := tail.Log(tt.lines)
			if got := textsOf(l); !slices.Equal(got, tt.want) || l.Cut != tt.cut {
				t.Errorf("%s, %d bytes at once: got %q %v, want %q %v", tt.name, size, got, l.Cut, tt.want, tt.cut)
			}
		}
	}
}

// Its memory does not grow with what is written.
func TestTailIsBounded(t *testing.T) {
	const most = 1 << 10
	tail, chunk := NewTail(most), bytes.Repeat([]byte("x"), 999)
	for range 10_000 {
		tail.Write(chunk)
	}
	if got := cap(tail.kept); got > 4*most {
		t.Errorf("it has %d bytes", got)
	}
	if l := tail.Log(5); len(l.Lines) != 1 || len(l.Lines[0].Text) != most || !l.Cut {
		t.Errorf("got %d lines, cut: %v", len(l.Lines), l.Cut)
	}
}

func TestTimesOfLines(t *testing.T) {
	l := Log{Lines: []LogLine{{Text: "2026-01-02T03:04:05.123456789Z hello world"}, {Text: "half a line"}, {Text: "2026-01-02T03:04:05Z"}}}
	l.TakeTimes()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []LogLine{{Time: at.Add(123456789), Text: "hello world"}, {Text: "half a line"}, {Time: at}}
	if !slices.Equal(l.Lines, want) {
		t.Errorf("got %v, want %v", l.Lines, want)
	}
}

func TestProcessesAreBounded(t *testing.T) {
	p := Processes{Titles: []string{"PID", "COMMAND"}}
	p.Add([]string{"1"})
	p.Add([]string{"2", strings.Repeat("é", maxCommand), "more"})
	for n := range maxProcesses {
		p.Add([]string{fmt.Sprint(n), "x"})
	}
	if len(p.Rows) != maxProcesses || p.More != 2 {
		t.Errorf("got %d rows and %d more", len(p.Rows), p.More)
	}
	if row := p.Rows[0]; !slices.Equal(row, []string{"1", ""}) {
		t.Errorf("got %q", row)
	}
	if row := p.Rows[1]; len(row) != 2 || len(row[1]) > maxCommand+3 {
		t.Errorf("got %d cells of %d bytes", len(row), len(row[1]))
	}
}
