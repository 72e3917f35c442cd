package supervisor

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// roll draws a number below n for something that happens to a container now. It
// depends on nothing else, so that the order in which goroutines run at the same
// moment makes no difference.
func (w *chaos) roll(what, id string, n int) int {
	return int(w.draw(what, id) % uint64(n))
}

// between draws a duration.
func (w *chaos) between(what, id string, low, high time.Duration) time.Duration {
	return low + time.Duration(w.draw(what, id)%uint64(high-low))
}

func (w *chaos) draw(what, id string) uint64 {
	sum := fnv.New64a()
	fmt.Fprint(sum, w.seed, what, id, time.Since(w.birth))
	x := sum.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// after lets something happen later, with the lock held.
func (w *chaos) after(d time.Duration, do func()) {
	time.AfterFunc(max(d, 1), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

func (w *chaos) reachable() bool { return w.engine.up && !w.engine.cut }

func (w *chaos) supervised(name string) bool {
	return w.specs[name] != nil
}

func (w *chaos) at(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(w.birth)
}

func (w *chaos) logf(format string, args ...any) {
	w.lines = append(w.lines, chaosLine{time.Since(w.birth), format, args})
}

// fail reports a violation, with the lock held.
func (w *chaos) fail(format string, args ...any) {
	if w.failures++; w.failures > 5 {
		return
	}
	message := fmt.Sprintf(format, args...)
	w.logf("FAILURE: %s", message)
	w.t.Errorf("seed %d at %v: %s", w.seed, time.Since(w.birth), message)
}

func (w *chaos) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures > 0
}

// story tells what happened: the last of it, unless one seed was asked for.
func (w *chaos) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	if *seedFlag == 0 {
		lines = lines[max(0, len(lines)-60):]
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "\n%12.6f  ", l.at.Seconds())
		fmt.Fprintf(&b, l.format, l.args...)
	}
	return b.String()
}

type fate int

const (
	fateGood fate = iota
	fateFails
	fateHangs
	fateLost
)

// fate says what becomes of a call that has reached the engine.
func (w *chaos) fate(what, id string) fate {
	switch {
	case w.sick && w.roll("fate "+what, id, 2) == 0:
		return fateHangs
	case !w.flaky:
		return fateGood
	}
	return []fate{fateFails, fateHangs, fateLost, fateLost, fateGood}[min(w.roll("fate "+what, id, 40), 4)]
}
