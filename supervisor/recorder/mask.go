package recorder

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"healthd/supervisor"
)

const (
	// leastMasked is the length of the shortest value that is no secret: as in package prober.
	leastMasked = 4
	// longestMasked bounds what is read beyond a bound, so that no half of a value is left at a cut.
	longestMasked = 16 << 10
	maxMasked     = 500 // values
)

// ordinary are variables whose values are everywhere, and no secrets.
var ordinary = []string{"PATH", "HOME", "PWD", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "HOSTNAME", "USER"}

// mask hides the values of a container's environment: a container may print them.
type mask struct {
	values  []string // the longest first
	names   map[string]string
	longest int
	tooMany bool // nothing that the container printed is shown
}

func newMask(env []string) *mask {
	m := &mask{names: map[string]string{}}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(ordinary, name) {
			continue
		}
		for _, part := range append(strings.Split(value, "\n"), value) { // logs are split into lines
			if part = strings.TrimSpace(part); len(part) >= leastMasked {
				m.names[part] = name
				m.longest = max(m.longest, len(part))
			}
		}
	}
	m.tooMany = len(m.names) > maxMasked || m.longest > longestMasked
	m.longest = min(m.longest, longestMasked)
	m.values = slices.SortedFunc(maps.Keys(m.names), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	return m
}

// text returns a text with $(NAME) in the place of values.
func (m *mask) text(s string) string {
	if m.tooMany && s != "" {
		return "(left out: the container's environment is too large to hide its values)"
	}
	for _, value := range m.values {
		if len(value) <= len(s) && strings.Contains(s, value) {
			s = strings.ReplaceAll(s, value, "$("+m.names[value]+")")
		}
	}
	return s
}

// cutEnd is text for one that was cut at its end, where half a value may be left.
func (m *mask) cutEnd(s string, cut bool) string {
	s = m.text(s)
	if cut {
		s = strings.ToValidUTF8(s[:max(0, len(s)-m.longest)], "")
	}
	return s
}

// hide masks all texts of a record that come from the container, within their bounds.
func (m *mask) hide(r *supervisor.FlightRecord) *supervisor.FlightRecord {
	r.Message = m.text(r.Message)
	for _, p := range r.Probes {
		for i := range p.Results {
			const cut = 1000 // bytes: the supervisor keeps little more
			p.Results[i].Output = m.cutEnd(p.Results[i].Output, len(p.Results[i].Output) >= cut)
		}
	}
	output := m.cutEnd(r.Command.Output, r.Command.Cut)
	r.Command.Output = strings.ToValidUTF8(output[:min(len(output), commandBytes)], "")
	r.Command.Cut = r.Command.Cut || len(output) > commandBytes
	r.Command.Error = m.text(r.Command.Error)
	m.hideLog(&r.Log)
	for _, row := range r.Processes.Rows {
		for i := range row {
			row[i] = m.text(row[i])
		}
	}
	for i := range r.Events {
		r.Events[i].Message = m.text(r.Events[i].Message)
	}
	for name, value := range r.Inspection.Labels {
		r.Inspection.Labels[name] = m.text(value)
	}
	return r
}

// hideLog masks a log. Where its first line is incomplete, half a value may be at its beginning.
func (m *mask) hideLog(l *supervisor.RecordedLog) {
	size := 0
	for i := len(l.Lines) - 1; i >= 0; i-- {
		text := m.text(l.Lines[i].Text)
		if i == 0 && l.Cut {
			text = text[min(len(text), m.longest):]
		}
		if size += len(text) + 1; size > logBytes {
			l.Lines, l.Cut = l.Lines[i:], true
			text = text[size-logBytes:][:max(0, len(text)-(size-logBytes))]
			l.Lines[0].Text = strings.ToValidUTF8(text, "")
			return
		}
		l.Lines[i].Text = strings.ToValidUTF8(text, "")
	}
}
