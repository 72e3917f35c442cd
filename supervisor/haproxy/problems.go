package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// openProblem is a problem that was reported and is not over.
type openProblem struct {
	text     string
	commands string // those that were refused; empty: none
	until    time.Time
	delay    time.Duration
}

const (
	maxRetryDelay = time.Minute
	maxRepeats    = 8
)

// dueOf returns the commands of a plan to execute now. Refused commands are retried with a
// back-off; commands that changed since are executed at once.
func (b *backendState) dueOf(p *plan, now time.Time) []command {
	if len(b.openProblems) == 0 {
		return p.commands
	}
	by := commandsBySubject(p.commands)
	var due []command
	for _, c := range p.commands {
		t := b.openProblems[c.subject]
		if t == nil || !now.Before(t.until) || t.commands != by[c.subject] {
			due = append(due, c)
		}
	}
	return due
}

// commandsBySubject returns all commands of each subject as one text.
func commandsBySubject(commands []command) map[string]string {
	by := map[string]string{}
	for _, c := range commands {
		by[c.subject] += c.text + "\n"
	}
	return by
}

// repeat is the last commands of a server, and how often in a row they were sent.
type repeat struct {
	commands string
	times    int
	last     time.Time
}

// countRepeats makes executed commands fail that HAProxy accepts again and again without effect:
// an operator, or an agent check at another address, reverts them.
func (b *backendState) countRepeats(done, failed map[string]string, now time.Time) {
	for about, commands := range done {
		if strings.HasPrefix(commands, "del server ") {
			continue // repeated until no client is connected
		}
		r := b.repeats[about]
		if r.commands != commands {
			r = repeat{commands: commands}
		}
		r.times, r.last = r.times+1, now
		b.repeats[about] = r
		if r.times >= maxRepeats && failed[about] == "" {
			failed[about] = fmt.Sprintf("server %s does not keep its state (%q): its agent check, an operator or another healthd changes it back", about, clip(commands))
		}
	}
	b.dropRepeats(now)
}

// endRepeats ends those of servers that have got other commands without a whole look.
func (b *backendState) endRepeats(done map[string]string) {
	for about, commands := range done {
		if b.repeats[about].commands != commands {
			delete(b.repeats, about)
		}
	}
}

// dropRepeats forgets those of long ago.
func (b *backendState) dropRepeats(now time.Time) {
	maps.DeleteFunc(b.repeats, func(_ string, r repeat) bool { return now.Sub(r.last) > 2*maxRetryDelay })
}

// updateProblems reports what went wrong with a backend when the commands tried of its plan were
// executed, and drops problems that are over.
func (l *instance) updateProblems(b *backendState, p *plan, tried, failed map[string]string, now time.Time) {
	by := commandsBySubject(p.commands)
	still := map[string]bool{}
	for about := range by {
		still[about] = tried[about] == "" // waits for its retry
	}
	for about, r := range b.repeats {
		still[about] = still[about] || r.times >= maxRepeats // although it succeeds now and then
	}
	for _, problem := range p.problems {
		still[problem.subject] = true
		l.reportProblem(b, problem.subject, problem.text, "", now)
	}
	for about := range tried {
		if text := failed[about]; text != "" {
			still[about] = true
			l.reportProblem(b, about, text, by[about], now)
		}
	}
	maps.DeleteFunc(b.openProblems, func(about string, _ *openProblem) bool { return !still[about] })
}

// reportProblem keeps a problem for its retry, and records an event when it is new.
func (l *instance) reportProblem(b *backendState, about, text, commands string, now time.Time) {
	t := b.openProblems[about]
	if t == nil || t.text != text {
		t = &openProblem{text: text, delay: pollInterval / 2}
		b.openProblems[about] = t
		l.record(EventError, "HAProxy at %s: %s", l.socket.text, text)
	}
	t.delay = min(2*t.delay, maxRetryDelay)
	t.commands, t.until = commands, now.Add(t.delay)
}

// problemTexts returns the open problems of all backends, for people; of very many the first few.
func (l *instance) problemTexts() (texts []string) {
	const most = 5
	for _, b := range l.backends {
		for _, problem := range b.openProblems {
			texts = append(texts, fmt.Sprintf("HAProxy at %s: %s", l.socket.text, problem.text))
		}
	}
	slices.Sort(texts)
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("HAProxy at %s: %d more problems: healthd events", l.socket.text, more))
	}
	return texts
}

// checkPatience is how long HAProxy's own check may have a server down that is to get requests. It takes that a moment
// to see a container that has become ready.
const checkPatience = 5 * time.Second

// checkedDown is since when HAProxy's own check has a server down, and what that said first. Later words are no news.
type checkedDown struct {
	since time.Time
	check string
}

// checkWords are HAProxy's codes of checks that failed.
var checkWords = map[string]string{
	"L4CON": "cannot connect", "L4TOUT": "no connection in time", "L6RSP": "no TLS", "L6TOUT": "no TLS in time",
	"L7RSP": "invalid answer", "L7STS": "unexpected status", "L7TOUT": "no answer in time",
}

func checkText(code string) string {
	if words := checkWords[code]; words != "" {
		return code + ": " + words
	}
	return code
}

// observeChecks finds servers that are to get requests, and that HAProxy's own check has down.
func (b *backendState) observeChecks(k *look, now time.Time) {
	down := map[string]checkedDown{}
	for i := range k.members {
		s := k.plan.server[k.members[i].name]
		if s == nil || k.members[i].want != wantUp || !s.agentUp || s.setAside() || !strings.HasPrefix(s.status, "DOWN") {
			continue
		}
		at, ok := b.down[s.name]
		if !ok {
			at = checkedDown{now, strings.TrimPrefix(s.checkStatus, "* ")} // while a check is under way
		}
		if down[s.name] = at; now.Sub(at.since) < checkPatience {
			k.plan.waits = true
			continue
		}
		k.plan.addProblem(s.key(k.name), fmt.Sprintf(
			"server %s is ready and gets no requests: HAProxy's own check has it DOWN (%s). Compare that check, its port and its TLS, with the container",
			s.key(k.name), checkText(at.check)))
	}
	b.down = down
}
