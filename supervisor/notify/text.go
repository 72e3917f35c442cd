package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// what returns what an entry is about, in a few words.
func (e *Entry) what() string {
	switch {
	case e.Container != "":
		return e.Container
	case e.Service != "":
		return "service " + e.Service
	case e.Runtime != "":
		return "runtime " + e.Runtime
	}
	return "healthd"
}

// titleOf returns what has happened in one line.
func titleOf(m *Message) string {
	if len(m.Entries) == 1 {
		return "[" + m.Host + "] " + entryTitle(&m.Entries[0])
	}
	var parts []string
	for _, group := range []struct{ status, noun string }{{begun, "new problem"}, {lasts, "lasting problem"}, {resolved, "resolved"}, {happened, "event"}} {
		n := countOf(m.Entries, group.status)
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", n, group.noun)
		if n > 1 && group.status != resolved {
			text += "s"
		}
		parts = append(parts, text+" ("+reasonsOf(m.Entries, group.status)+")")
	}
	return "[" + m.Host + "] " + strings.Join(parts, ", ")
}

func entryTitle(e *Entry) string {
	switch e.Status {
	case resolved:
		return fmt.Sprintf("Resolved: %s: %s, after %s", e.Reason, e.what(), roughly(e.Resolved.Sub(e.Since)))
	case lasts:
		return fmt.Sprintf("Still %s: %s", e.Reason, e.what())
	}
	return e.Reason + ": " + e.what()
}

// reasonsOf counts the entries of one status by reason: "CrashLoop 3, ServiceDown 1".
func reasonsOf(entries []Entry, status string) string {
	counts := map[string]int{}
	for _, e := range entries {
		if e.Status == status {
			counts[e.Reason]++
		}
	}
	var texts []string
	for _, reason := range sortedKeys(counts) {
		texts = append(texts, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return strings.Join(texts, ", ")
}

// textOf returns the message for people: of one entry all, of many the first ones.
func textOf(m *Message) string {
	var b strings.Builder
	for i := range m.Entries[:min(len(m.Entries), maxShown)] {
		if i > 0 {
			b.WriteString("\n")
		}
		if len(m.Entries) > 1 { // else it is the title
			fmt.Fprintln(&b, entryTitle(&m.Entries[i]))
		}
		writeEntry(&b, &m.Entries[i], m.Time)
	}
	if more := len(m.Entries) - maxShown; more > 0 {
		fmt.Fprintf(&b, "\nand %d more: healthd status\n", more)
	}
	if m.Held > 0 {
		fmt.Fprintf(&b, "\n%d more came and went while max_per_hour held messages back: healthd events\n", m.Held)
	}
	return b.String()
}

func writeEntry(b *strings.Builder, e *Entry, now time.Time) {
	var of []string
	for _, part := range []struct{ noun, name string }{{"service", e.Service}, {"project", e.Project}, {"runtime", e.Runtime}} {
		if part.name != "" {
			of = append(of, part.noun+" "+part.name)
		}
	}
	if len(of) > 0 {
		fmt.Fprintf(b, "  of:    %s\n", strings.Join(of, ", "))
	}
	since := e.Since.Format(time.RFC3339)
	if d := now.Sub(e.Since); e.Status != resolved && d >= time.Minute {
		since += " (" + roughly(d) + ")"
	}
	fmt.Fprintf(b, "  since: %s\n", since)
	lines := []struct{ noun, text string }{{"cause", e.Cause}, {"next", e.Next}, {"more", e.Explain}}
	if e.Status == resolved {
		lines = slices.Delete(lines, 1, 2)
	}
	for _, l := range lines {
		if l.text != "" {
			fmt.Fprintf(b, "  %-6s %s\n", l.noun+":", l.text)
		}
	}
}

// roughly returns a duration as people say it: 42s, 12m, 3h5m, 4d2h.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(0, d)
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
