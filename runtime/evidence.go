package runtime

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Evidence of what a container was doing, for people who look for why it failed. Engines bound
// each part in bytes and time; none of it has the values of environment variables, unless the
// container itself wrote them.

// Log is the end of what a container has written, on both streams.
type Log struct {
	Lines []LogLine // oldest first
	Cut   bool      // the first line is incomplete, or fewer than asked for fitted
}

// LogLine is one line of a log.
type LogLine struct {
	Time time.Time // by the engine's clock; zero: not known
	Text string    // without the line break, valid UTF-8
}

// Processes are a container's processes as a table.
type Processes struct {
	Titles []string
	Rows   [][]string // each as long as Titles
	More   int        // so many are left out
}

// Usage is what a container uses of memory and CPU. A limit of 0 is none, or not known.
type Usage struct {
	Memory      uint64 // bytes, without caches that the kernel can drop at once
	MemoryLimit uint64 // bytes; some engines tell the host's memory where there is none
	CPU         time.Duration
	// Throttled is for how long the container's CPU limit held it up, in all.
	Throttled time.Duration
	PIDs      uint64
	PIDsLimit uint64
}

// ErrNotReadable is what Logs wraps when the container's log driver keeps nothing that can be read.
var ErrNotReadable = errors.New("its log cannot be read")

// Bounds of a Processes.
const (
	maxProcesses = 200
	maxCommand   = 1 << 10 // bytes of one cell
)

// Add adds a row, or counts it when there are too many. Missing cells are empty, further ones are
// dropped.
func (p *Processes) Add(row []string) {
	if len(p.Rows) >= maxProcesses {
		p.More++
		return
	}
	cells := make([]string, len(p.Titles))
	for i := range cells {
		if i < len(row) {
			cells[i] = validUTF8(row[i], maxCommand)
		}
	}
	p.Rows = append(p.Rows, cells)
}

// validUTF8 returns at most so many bytes of s, which may be invalid.
func validUTF8(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], string(utf8.RuneError))
}

// Tail keeps the end of what is written to it: at most so many bytes. Its memory is twice that.
type Tail struct {
	most    int
	kept    []byte
	written int64
}

// NewTail returns an empty Tail.
func NewTail(bytes int) *Tail { return &Tail{most: bytes} }

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.written += int64(len(p))
	if len(p) >= t.most {
		t.kept = append(t.kept[:0], p[len(p)-t.most:]...)
		return len(p), nil
	}
	if len(t.kept)+len(p) > 2*t.most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

// Log returns the last lines, at most so many.
func (t *Tail) Log(lines int) Log {
	kept := t.kept[max(0, len(t.kept)-t.most):]
	text := strings.TrimSuffix(string(kept), "\n")
	if text == "" {
		return Log{}
	}
	all := strings.Split(text, "\n")
	l := Log{Cut: t.written > int64(len(kept)) && len(all) <= lines}
	for _, line := range all[max(0, len(all)-lines):] {
		l.Lines = append(l.Lines, LogLine{Text: validUTF8(strings.TrimSuffix(line, "\r"), len(line))})
	}
	return l
}

// TakeTimes moves the time at the beginning of each line, as engines write it there, into its Time.
func (l *Log) TakeTimes() {
	for i := range l.Lines {
		line := &l.Lines[i]
		stamp, text, _ := strings.Cut(line.Text, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			line.Time, line.Text = at, text
		}
	}
}
