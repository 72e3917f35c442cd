package supervisor

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// roll draws a number below n for something that happens to a container now. The number
// depends on nothing else, so the order in which goroutines run at the same time makes
// no difference.
func (h *world) roll(what, id string, n int) int {
	return int(h.hash(what, id) % uint64(n))
}

// randomDuration draws a duration from low up to high.
func (h *world) randomDuration(what, id string, low, high time.Duration) time.Duration {
	return low + time.Duration(h.hash(what, id)%uint64(high-low))
}

func (h *world) hash(what, id string) uint64 {
	sum := fnv.New64a()
	fmt.Fprint(sum, h.seed, what, id, time.Since(h.startedAt))
	x := sum.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// afterFunc calls do after d, with the lock held.
func (h *world) afterFunc(d time.Duration, do func()) {
	time.AfterFunc(max(d, 1), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		do()
	})
}

func (h *world) reachable() bool { return h.engine.up && !h.engine.unreachable }

func (h *world) supervised(name string) bool {
	return h.specs[name] != nil
}

func (h *world) sinceStart(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(h.startedAt)
}

func (h *world) logf(format string, args ...any) {
	if n := len(h.lines); n == 4*shownLines && !h.one {
		h.lines = append(h.lines[:0], h.lines[n-shownLines:]...)
	}
	h.lines = append(h.lines, worldLine{time.Since(h.startedAt), format, args})
}

// fail reports a violation. It is called with the lock held.
func (h *world) fail(format string, args ...any) {
	if h.failures++; h.failures > 5 {
		return
	}
	message := fmt.Sprintf(format, args...)
	h.logf("FAILURE: %s", message)
	h.t.Errorf("seed %d at %v: %s", h.seed, time.Since(h.startedAt), message)
}

func (h *world) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0
}

// shownLines is how many lines a transcript has, unless only one seed is played.
const shownLines = 60

// transcript returns what happened at the end, or all of it with -seed.
func (h *world) transcript() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	if !h.one {
		lines = lines[max(0, len(lines)-shownLines):]
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "\n%12.6f  ", l.at.Seconds())
		fmt.Fprintf(&b, l.format, l.args...)
	}
	return b.String()
}

type callOutcome int

const (
	callSucceeds callOutcome = iota
	callFails
	callHangs
	replyLost
)

// callOutcome decides the outcome of a call that has reached the engine.
func (h *world) callOutcome(what, id string) callOutcome {
	switch {
	case h.callsHang && h.roll("outcome "+what, id, 2) == 0:
		return callHangs
	case !h.callsFail:
		return callSucceeds
	}
	return []callOutcome{callFails, callHangs, replyLost, replyLost, callSucceeds}[min(h.roll("outcome "+what, id, 40), 4)]
}
