package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"healthd/bench/engine"
)

// ledger knows which starts and stops of containers are wanted of healthd. Whatever else it asks of the engine, nobody asked
// for.
type ledger struct {
	mu     sync.Mutex
	wanted map[string]*wanted // by the container's ID
}

// wanted are the acts that have yet to come, in this order.
type wanted struct {
	kinds []string
	came  chan engine.Act // has room for all
}

func newLedger() *ledger { return &ledger{wanted: map[string]*wanted{}} }

// expect wants acts of healthd about a container, until they have come or forget is called. They come on the channel.
func (l *ledger) expect(id string, kinds ...string) <-chan engine.Act {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &wanted{kinds, make(chan engine.Act, len(kinds))}
	l.wanted[id] = w
	return w.came
}

// expects says whether acts about a container have yet to come.
func (l *ledger) expects(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted[id] != nil
}

func (l *ledger) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wanted, id)
}

// enter takes in what healthd did, and returns what of it nobody asked for.
func (l *ledger) enter(acts []engine.Act) (unasked []engine.Act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range acts {
		w := l.wanted[a.ID]
		if w == nil || w.kinds[0] != a.Kind {
			unasked = append(unasked, a)
			continue
		}
		w.came <- a
		if w.kinds = w.kinds[1:]; len(w.kinds) == 0 {
			delete(l.wanted, a.ID)
		}
	}
	return unasked
}

// finding is something that healthd did wrong, or left undone.
type finding string

const (
	notRestarted  finding = "containers that should have been restarted and were not"
	unasked       finding = "restarts that nobody asked for"
	missedProbe   finding = "missed probes"
	notReadyAgain finding = "containers that did not become ready again"
	notWithdrawn  finding = "containers whose readiness was not withdrawn"
	notReloaded   finding = "reloads with another outcome than wanted"
	notAnswered   finding = "requests to healthd that failed"
)

// allFindings is the order in which they are shown.
var allFindings = []finding{notRestarted, unasked, missedProbe, notReadyAgain, notWithdrawn, notReloaded, notAnswered}

// findings counts them.
type findings struct {
	mu sync.Mutex
	n  map[finding]int
}

// shownFindings is how many of each kind are told one by one.
const shownFindings = 20

// add counts n of a kind, and tells of them.
func (f *findings) add(what finding, n int, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[finding]int{}
	}
	if f.n[what] < shownFindings {
		fmt.Fprintf(os.Stderr, "bench:   %s %s: %s\n", time.Now().Format(time.TimeOnly), what, fmt.Sprintf(format, args...))
	}
	f.n[what] += n
}

func (f *findings) count(what finding) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[what]
}

// counts are how often things were done.
type counts struct {
	mu      sync.Mutex
	n       map[string]int
	longest map[string]time.Duration
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what]++
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// took notes how long something took, of which the longest is kept.
func (c *counts) took(what string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.longest == nil {
		c.longest = map[string]time.Duration{}
	}
	c.longest[what] = max(c.longest[what], d)
}

func (c *counts) longestOf(what string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest[what]
}

// describe lists counts.
func (c *counts) describe(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", c.of(name), name)
	}
	return b.String()
}
