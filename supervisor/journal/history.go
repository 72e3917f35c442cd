package journal

import (
	"container/heap"
	"container/list"
	"iter"

	"healthd/supervisor/core"
)

// Bounds of the history, in memory and in the file. An event counts with the bytes of its
// record, and with leastEvent when it is shorter, so that there are never more than Size.
const (
	leastEvent = 1280
	maxHistory = Size * leastEvent
	// fairShare is how much of a container's newest events no other container pushes out, as
	// long as the shares of all fit.
	fairShare = 50 * leastEvent
)

// history holds the newest events. When it is full, the container that has most loses its
// oldest event: one that fails all the time pushes out its own events only. A container with
// no more than fairShare is spared. When none has more, the oldest event of all goes, so that
// names that are never used again, as those of a build host, do not fill the history for ever.
//
// Journal.mu guards it. Every operation costs the logarithm of the number of containers.
type history struct {
	all     *list.List         // of *kept, oldest first
	sources map[string]*source // by name; that of the empty name has the host's events
	largest sourceHeap
	bytes   int
}

// kept is an event in the history. Only next changes.
type kept struct {
	core.Event
	number uint64
	bytes  int
	place  *list.Element
	next   *kept // of the same container
}

// source is the container of some events, at least one.
type source struct {
	name           string
	oldest, newest *kept
	bytes          int
	place          int // in the heap
}

func newHistory() *history {
	return &history{all: list.New(), sources: map[string]*source{}}
}

// add adds an event. Its number is greater than those before.
func (h *history) add(number uint64, ev core.Event) {
	k := &kept{Event: ev, number: number, bytes: historyBytes(&ev)}
	k.place = h.all.PushBack(k)
	h.bytes += k.bytes
	s, known := h.sources[ev.Container]
	if !known {
		s = &source{name: ev.Container, oldest: k, newest: k, bytes: k.bytes}
		h.sources[s.name] = s
		heap.Push(&h.largest, s)
		return
	}
	s.newest.next, s.newest = k, k
	s.bytes += k.bytes
	heap.Fix(&h.largest, s.place)
}

func (h *history) overfull() bool { return h.bytes > maxHistory }

// drop drops the event that is to go next, and returns its number.
func (h *history) drop() uint64 {
	s := h.largest[0]
	if s.bytes <= fairShare {
		s = h.sources[h.all.Front().Value.(*kept).Container]
	}
	k := s.oldest
	h.all.Remove(k.place)
	h.bytes -= k.bytes
	s.oldest, s.bytes = k.next, s.bytes-k.bytes
	k.next = nil // a batch that a disk does not take must not keep all later events
	if s.oldest == nil {
		heap.Remove(&h.largest, s.place)
		delete(h.sources, s.name)
		return k.number
	}
	heap.Fix(&h.largest, s.place)
	return k.number
}

// after returns the events after the one with that number, oldest first.
func (h *history) after(number uint64) []*kept { return h.firstAfter(number, h.all.Len()) }

// firstAfter returns the oldest of these, so many at most.
func (h *history) firstAfter(number uint64, most int) []*kept {
	n, e := 0, h.all.Back()
	for ; e != nil && e.Value.(*kept).number > number; e = e.Prev() {
		n++
	}
	if e == nil {
		e = h.all.Front()
	} else {
		e = e.Next()
	}
	events := make([]*kept, min(n, most))
	for i := range events {
		events[i], e = e.Value.(*kept), e.Next()
	}
	return events
}

// of returns the events of one container, or all when name is empty. The oldest comes first.
func (h *history) of(name string) iter.Seq[*kept] {
	return func(yield func(*kept) bool) {
		if name == "" {
			for e := h.all.Front(); e != nil && yield(e.Value.(*kept)); e = e.Next() {
			}
			return
		}
		if s, known := h.sources[name]; known {
			for k := s.oldest; k != nil && yield(k); k = k.next {
			}
		}
	}
}

// sourceHeap has the source with the most bytes first, and of several the one with the oldest
// event.
type sourceHeap []*source

func (h sourceHeap) Len() int { return len(h) }

func (h sourceHeap) Less(i, j int) bool {
	if h[i].bytes != h[j].bytes {
		return h[i].bytes > h[j].bytes
	}
	return h[i].oldest.number < h[j].oldest.number
}

func (h sourceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *sourceHeap) Push(x any) {
	s := x.(*source)
	s.place = len(*h)
	*h = append(*h, s)
}

func (h *sourceHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
