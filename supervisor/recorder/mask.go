package recorder

import (
	"slices"
	"strings"

	"healthd/prober"
	"healthd/supervisor"
)

// maxGrowth bounds how much longer all texts of a record together become by the names in the place of values, in bytes.
const maxGrowth = 256 << 10

// ordinary are variables whose values are everywhere, and no secrets.
var ordinary = []string{"PATH", "HOME", "PWD", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "HOSTNAME", "USER"}

// mask hides the values of a container's environment in one record: a container may print them.
type mask struct {
	values prober.Mask
	growth int // bytes that are left of maxGrowth
}

func newMask(env []string, clipped bool) *mask {
	names := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(ordinary, name) {
			continue
		}
		names[strings.TrimSpace(value)] = name
		for part := range strings.SplitSeq(value, "\n") { // logs are split into lines
			names[strings.TrimSpace(part)] = name
		}
	}
	return &mask{values: prober.NewMask(names, clipped), growth: maxGrowth}
}

// text returns a text with $(NAME) in the place of values.
func (m *mask) text(s string) string { return m.grow(s, m.values.Text(s, len(s)+m.growth)) }

// cutEnd is text for one that was cut at its end, where half a value may be left.
func (m *mask) cutEnd(s string, cut bool) string {
	if !cut {
		return m.text(s)
	}
	return strings.ToValidUTF8(m.grow(s, m.values.CutText(s, len(s)+m.growth)), "")
}

func (m *mask) grow(from, to string) string {
	m.growth -= max(0, len(to)-len(from))
	return to
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
		r.Inspection.Labels[name] = m.cutEnd(value, len(value) >= maxValue)
	}
	return r
}

// hideLog masks a log. Where its first line is incomplete, half a value may be at its beginning.
func (m *mask) hideLog(l *supervisor.RecordedLog) {
	size := 0
	for i := len(l.Lines) - 1; i >= 0; i-- {
		text := m.text(l.Lines[i].Text)
		if i == 0 && l.Cut {
			text = text[min(len(text), m.values.Longest):]
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
