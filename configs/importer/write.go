package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"healthd/configs"
)

const (
	lineWidth  = 100
	maxComment = 500 // characters: a comment repeats what may be of any length
)

// place is a setting of a draft; line is isHeader for a table itself.
type place struct{ table, line int }

// finish checks each draft, and writes all.
func (d *document) finish() (*Document, error) {
	doc := &Document{Notes: d.notes}
	var b strings.Builder
	b.WriteString(d.head.render())
	doc.Lost = d.head.losses()
	for _, s := range d.drafts {
		s.sort()
		s.mend()
		s.hold()
		text, _ := s.render()
		b.WriteString("\n" + text)
		if !s.broken {
			doc.Specs++
		}
		for _, t := range s.tables {
			doc.Lost += t.losses()
		}
	}
	doc.Text = b.String()
	if _, err := configs.Parse("import", []byte(doc.Text)); err != nil {
		return nil, &defect{err}
	}
	return doc, nil
}

// defect says that healthd wrote what it does not read.
type defect struct{ error }

func (d *defect) Error() string {
	return "what came of it is not valid, which is a defect of healthd: " + d.error.Error()
}

// sort puts the tables in the order in which people read them.
func (d *draft) sort() {
	order := []string{"[[spec]]", "[spec.ports]", "[spec.startup]", "[spec.liveness]", "[spec.readiness]", "[[spec.restart_rules]]", "[spec.lifecycle]", "[spec.backoff]", "[spec.group]", "[spec.publish]"}
	at := func(t *table) int {
		if i := slices.Index(order, t.header); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(d.tables, func(a, b *table) int { return at(a) - at(b) })
}

func (t *table) losses() int {
	n := 0
	for _, l := range t.lines {
		if l.lost {
			n++
		}
	}
	return n
}

// mend turns each setting that configs.Parse does not take into a comment with what it says.
func (d *draft) mend() {
	for range 1 + d.size() {
		text, places := d.render()
		_, err := configs.Parse("", []byte(text))
		if err == nil {
			return
		}
		problems, ok := errors.AsType[configs.Problems](err)
		if !ok || !d.dropAll(problems, places) {
			break
		}
	}
	d.breakOff("no part of it is valid")
}

// hold takes away the probes that would restart what nobody restarts today: those that have lost some of their settings, as
// healthd's defaults need not be what was meant, and a liveness probe that has lost the startup probe it waits for.
func (d *draft) hold() {
	if d.broken {
		return
	}
	startup, liveness := d.table("startup"), d.table("liveness")
	for _, t := range []*table{startup, liveness} {
		if t.harmed() && t.settings() {
			t.clear(t.probe()+" probe", "what is lost of it may be what keeps it from restarting a container that is well: write it by hand")
		}
	}
	if startup.harmed() && liveness.settings() {
		liveness.clear("liveness probe", "without its startup probe it would restart a container that starts slowly: write both by hand")
	}
}

// probe is what a table of a probe is called.
func (t *table) probe() string {
	return strings.TrimSuffix(strings.TrimPrefix(t.header, "[spec."), "]")
}

// size returns how many settings there are: each round of mending takes one away at least.
func (d *draft) size() int {
	n := 0
	for _, t := range d.tables {
		n += len(t.lines)
	}
	return n
}

// dropAll drops what the problems are about. It returns false when they are about nothing that it has.
func (d *draft) dropAll(problems configs.Problems, places map[int]place) bool {
	dropped := map[place]bool{}
	for _, p := range problems {
		at, ok := places[p.Line]
		if ok && !dropped[at] && !dropped[place{at.table, isHeader}] {
			dropped[d.dropAt(at, strings.TrimPrefix(p.Path, "spec["+d.name+"]."), p.Text)] = true
		}
		if d.broken {
			return true
		}
	}
	return len(dropped) > 0
}

// dropAt drops the setting at a place, or the table that makes no sense without it, and returns the place of what it
// dropped.
func (d *draft) dropAt(at place, path, why string) place {
	t := d.tables[at.table]
	whole := place{at.table, isHeader}
	if at.line < 0 {
		if t == d.own {
			d.breakOff(why)
			return whole
		}
		t.clear(strings.Trim(t.header, "[]"), why)
		return whole
	}
	switch key := t.lines[at.line].key; {
	case t == d.own && (key == "name" || key == "restart_policy" || strings.HasPrefix(key, "match")):
		d.breakOff(key + ": " + why)
		return whole
	case slices.Contains(needed(), key), strings.HasPrefix(t.header, "[[spec."):
		t.clear(path+" = "+t.lines[at.line].value, why)
		return whole
	}
	t.drop(at.line, why)
	return at
}

// needed returns the keys without which their table makes no sense.
func needed() []string { return []string{"http_get", "tcp_socket", "exec", "grpc", "engine_health"} }

// breakOff leaves only comments of the draft.
func (d *draft) breakOff(why string) {
	d.broken = true
	for i, t := range d.tables {
		if i == 0 {
			t.clear("all of "+d.name, why)
			continue
		}
		if t.settings() {
			t.clear(strings.Trim(t.header, "[]"), "it belongs to "+d.name)
		}
	}
}

// written is a line as it is written, and which line of its table it is: isHeader and isComment stand for others.
type written struct {
	text string
	line int
}

const (
	isHeader  = -1
	isComment = -2
)

// render returns the spec as TOML, and which setting is on which line, from 1.
func (d *draft) render() (text string, places map[int]place) {
	var b strings.Builder
	places = map[int]place{}
	at := 1
	for i, t := range d.tables {
		lines := t.written()
		if i > 0 && len(lines) > 0 {
			lines = append([]written{{"", isComment}}, lines...)
		}
		for _, l := range lines {
			b.WriteString(l.text + "\n")
			if l.line != isComment {
				places[at] = place{i, l.line}
			}
			at++
		}
	}
	return b.String(), places
}

func (t *table) render() string {
	var b strings.Builder
	for _, l := range t.written() {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (t *table) written() []written {
	var all []written
	if t.header != "" && t.settings() {
		all = append(all, written{t.header, isHeader})
	}
	width := 0
	for _, l := range t.lines {
		width = max(width, len(l.key))
	}
	for i, l := range t.lines {
		switch {
		case l.key != "":
			text := fmt.Sprintf("%-*s = %s", width, l.key, l.value)
			if l.note != "" {
				text += "   # " + l.note
			}
			all = append(all, written{text, i})
		case l.verbatim:
			all = append(all, written{"#" + l.text, isComment})
		default:
			for j, part := range wrap(comment(l.text), lineWidth-4) {
				all = append(all, written{"# " + strings.Repeat("  ", min(j, 1)) + part, isComment})
			}
		}
	}
	return all
}
