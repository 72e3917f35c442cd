package supervisor

import "time"

// queue is the entries that wait for a time, earliest first.
type queue struct{ entryHeap }

func newQueue() queue {
	return queue{entryHeap{
		less:  func(a, b *entry) bool { return a.wake.Before(b.wake) },
		place: func(e *entry) *int { return &e.queued },
	}}
}

// set makes e due at that time; the zero time takes it from the queue.
func (q *queue) set(e *entry, at time.Time) {
	switch {
	case at.IsZero():
		q.remove(e)
	case !q.has(e) || !e.wake.Equal(at):
		e.wake = at
		q.put(e)
	}
}

func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// turnEvery is the time between two turns in which the loop does what is due. To wake a process that sleeps costs more
// than to carry out one probe: threads are switched, and the Go runtime looks after itself every 20 µs for a while.
// With 2,000 probes a second, each woken for by itself, that was two fifths of healthd's CPU.
const turnEvery = 10 * time.Millisecond

// turnOf returns when the loop does what is due at a moment: at once, or in the first turn after that. Turns
// are the same moments for all, so that a probe keeps its phase. The zero time stays.
func turnOf(due, now time.Time) time.Time {
	if !due.After(now) {
		return due
	}
	if over := time.Duration(due.UnixNano()) % turnEvery; over > 0 {
		return due.Add(turnEvery - over)
	}
	return due
}
