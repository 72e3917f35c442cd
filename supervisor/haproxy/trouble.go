package haproxy

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// trouble is something that HAProxy does not do.
type trouble struct {
	text     string
	commands string // that were refused; empty: none were
	until    time.Time
	delay    time.Duration
}

const (
	maxTrouble = time.Minute
	maxRepeats = 8
)

// dueOf returns the commands of a plan that are not to wait: what was refused is tried
// again later and later, unless something else is wanted by now.
func (b *book) dueOf(p *plan, now time.Time) []command {
	if len(b.troubles) == 0 {
		return p.commands
	}
	by := commandsBy(p.commands)
	var due []command
	for _, c := range p.commands {
		t := b.troubles[c.about]
		if t == nil || !now.Before(t.until) || t.commands != by[c.about] {
			due = append(due, c)
		}
	}
	return due
}

// commandsBy returns all the commands of each server as one text.
func commandsBy(commands []command) map[string]string {
	by := map[string]string{}
	for _, c := range commands {
		by[c.about] += c.text + "\n"
	}
	return by
}

// repeat is what a server was told last, and how often in a row.
type repeat struct {
	commands string
	times    int
	last     time.Time
}

// countRepeats makes a failure of what HAProxy takes well each time and does not keep:
// somebody else, such as an agent check that goes elsewhere, says otherwise.
func (b *book) countRepeats(done []command, failed map[string]string, now time.Time) {
	for about, commands := range commandsBy(done) {
		if strings.HasPrefix(commands, "del server ") {
			continue // somebody is still connected
		}
		r := b.again[about]
		if r.commands != commands {
			r = repeat{commands: commands}
		}
		r.times, r.last = r.times+1, now
		b.again[about] = r
		if r.times >= maxRepeats && failed[about] == "" {
			failed[about] = fmt.Sprintf("server %s does not stay as it is told (%q): its agent check, or somebody else, says otherwise", about, clip(commands))
		}
	}
	maps.DeleteFunc(b.again, func(_ string, r repeat) bool { return now.Sub(r.last) > 2*maxTrouble })
}

// settleTroubles takes in what went wrong with a backend when these commands of its
// plan were carried out, and forgets what goes well again.
func (l *link) settleTroubles(b *book, p *plan, done []command, failed map[string]string, now time.Time) {
	by, tried := commandsBy(p.commands), commandsBy(done)
	still := map[string]bool{}
	for about := range by {
		still[about] = tried[about] == "" // it waits
	}
	for about, r := range b.again {
		still[about] = still[about] || r.times >= maxRepeats // although all is well at times
	}
	for _, problem := range p.problems {
		still[problem.about] = true
		l.trouble(b, problem.about, problem.text, "", now)
	}
	for about := range tried {
		if text := failed[about]; text != "" {
			still[about] = true
			l.trouble(b, about, text, by[about], now)
		}
	}
	maps.DeleteFunc(b.troubles, func(about string, _ *trouble) bool { return !still[about] })
}

// trouble notes one thing that goes wrong, and tells it once.
func (l *link) trouble(b *book, about, text, commands string, now time.Time) {
	t := b.troubles[about]
	if t == nil || t.text != text {
		t = &trouble{text: text, delay: lookEvery / 2}
		b.troubles[about] = t
		l.record(EventError, "HAProxy at %s: %s", l.socket.text, text)
	}
	t.delay = min(2*t.delay, maxTrouble)
	t.commands, t.until = commands, now.Add(t.delay)
}
