package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// draft is one [[spec]] in the making.
type draft struct {
	name   string
	own    *table // [[spec]] itself
	tables []*table
	broken bool // nothing of it can be carried over: only its comments are written
}

// table is a table of the spec, with its settings and comments in the order in which they are written.
type table struct {
	header string // as TOML has it; empty: comments only
	lines  []line
}

// line is a setting, or a comment where key is empty.
type line struct {
	key, value string // value as TOML
	note       string // of a setting: what stands behind it
	text       string // of a comment
	lost       bool   // of a comment: it tells of a setting that could not be carried over
	harmless   bool   // of a loss: a probe means the same without the setting
	verbatim   bool   // of a comment: it is TOML, and not wrapped
}

// add begins a table.
func (d *draft) add(header string) *table {
	t := &table{header: header}
	d.tables = append(d.tables, t)
	return t
}

// table returns the table below the spec, which it begins if it is new.
func (d *draft) table(key string) *table {
	header := "[spec." + key + "]"
	for _, t := range d.tables {
		if t.header == header {
			return t
		}
	}
	return d.add(header)
}

// set sets a key to a value that is TOML already.
func (t *table) set(key, value string) *line {
	if strings.Contains(key+value, notUTF8) {
		t.lost("%s: it is not UTF-8 text", strings.Trim(key, notUTF8))
	} else {
		t.lines = append(t.lines, line{key: key, value: value})
	}
	return &t.lines[len(t.lines)-1]
}

// has says whether a key is set.
func (t *table) has(key string) bool {
	for _, l := range t.lines {
		if l.key == key {
			return true
		}
	}
	return false
}

// because puts a comment behind the setting.
func (l *line) because(format string, args ...any) { l.note = comment(fmt.Sprintf(format, args...)) }

func (t *table) text(key, value string) *line   { return t.set(key, quote(value)) }
func (t *table) number(key string, n int) *line { return t.set(bare(key), fmt.Sprint(n)) }
func (t *table) duration(key string, d time.Duration) *line {
	return t.set(key, quote(showDuration(d)))
}

// remark adds a comment that is no loss.
func (t *table) remark(format string, args ...any) {
	t.lines = append(t.lines, line{text: fmt.Sprintf(format, args...)})
}

// lost adds a comment about a setting that could not be carried over: what it is, why, and what to do.
func (t *table) lost(format string, args ...any) {
	t.lines = append(t.lines, line{text: lostMark + fmt.Sprintf(format, args...), lost: true})
}

// lostHarmless is lost for what does not change what a probe does.
func (t *table) lostHarmless(format string, args ...any) {
	t.lost(format, args...)
	t.lines[len(t.lines)-1].harmless = true
}

// harmed says whether the table has lost a setting that matters.
func (t *table) harmed() bool {
	return slices.ContainsFunc(t.lines, func(l line) bool { return l.lost && !l.harmless })
}

// suggest adds settings as comments, under a comment that says what for.
func (t *table) suggest(what string, settings *table) {
	t.remark("%s", what)
	for text := range strings.Lines(settings.render()) {
		t.lines = append(t.lines, line{text: "  " + strings.TrimSuffix(text, "\n"), verbatim: true})
	}
}

// drop makes a comment of a setting, about why it cannot be carried over.
func (t *table) drop(i int, why string) {
	l := t.lines[i]
	t.lines[i] = line{text: lostMark + l.key + " = " + l.value + ": " + why, lost: true}
}

// clear makes one comment of all settings.
func (t *table) clear(what, why string) {
	kept := []line{{text: lostMark + what + ": " + why, lost: true}}
	for _, l := range t.lines {
		if l.key == "" {
			kept = append(kept, l)
		}
	}
	t.lines = kept
}

// settings says whether the table has any.
func (t *table) settings() bool {
	for _, l := range t.lines {
		if l.key != "" {
			return true
		}
	}
	return false
}
