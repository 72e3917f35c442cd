package haproxy

import (
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

const maxTrouble = time.Minute

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

// settleTroubles takes in what went wrong with a backend when these commands of its
// plan were carried out, and forgets what goes well again.
func (l *link) settleTroubles(b *book, p *plan, done []command, failed map[string]string, now time.Time) {
	by, tried := commandsBy(p.commands), commandsBy(done)
	still := map[string]bool{}
	for about := range by {
		still[about] = tried[about] == "" // it waits
	}
	for _, problem := range p.problems {
		still[problem.about] = true
		l.trouble(b, problem.about, problem.text, "", now)
	}
	for about := range tried {
		if text := failed[about]; text != "" {
			still[about] = true
			delete(b.told, strings.TrimPrefix(about, p.backend+"/"))
			l.trouble(b, about, text, by[about], now)
		}
	}
	maps.DeleteFunc(b.troubles, func(about string, _ *trouble) bool { return !still[about] })
	l.h.metrics.troubles(l.socket, l.books)
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
