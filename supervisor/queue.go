package supervisor

import (
	"container/heap"
	"time"
)

// queue is a heap of the entries that wait for a time, earliest first.
type queue struct{ entries []*entry }

// set makes e due at that time; the zero time takes it from the queue.
func (q *queue) set(e *entry, at time.Time) {
	switch {
	case at.IsZero() && e.index < 0:
	case at.IsZero():
		heap.Remove(q, e.index)
	case e.index < 0:
		e.wake = at
		heap.Push(q, e)
	case !e.wake.Equal(at):
		e.wake = at
		heap.Fix(q, e.index)
	}
}

// first returns the entry that is due first, nil when the queue is empty.
func (q *queue) first() *entry {
	if len(q.entries) == 0 {
		return nil
	}
	return q.entries[0]
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (q *queue) Len() int           { return len(q.entries) }
func (q *queue) Less(i, j int) bool { return q.entries[i].wake.Before(q.entries[j].wake) }
func (q *queue) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	q.entries[i].index, q.entries[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(q.entries)
	q.entries = append(q.entries, e)
}

func (q *queue) Pop() any {
	last := len(q.entries) - 1
	e := q.entries[last]
	q.entries[last] = nil
	q.entries = q.entries[:last]
	e.index = -1
	return e
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
