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
