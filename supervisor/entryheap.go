package supervisor

import "container/heap"

// entryHeap is a heap of entries, each of which knows its place in it. Every operation
// costs the logarithm of its size.
type entryHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
	place   func(*entry) *int // of the entry in this heap, from 1; 0: it is not there
}

func (h *entryHeap) has(e *entry) bool { return *h.place(e) > 0 }

// put adds e, or moves it to where it belongs now.
func (h *entryHeap) put(e *entry) {
	if h.has(e) {
		heap.Fix(h, *h.place(e)-1)
		return
	}
	heap.Push(h, e)
}

// remove takes e out, and says whether it was there.
func (h *entryHeap) remove(e *entry) bool {
	if !h.has(e) {
		return false
	}
	heap.Remove(h, *h.place(e)-1)
	return true
}

// first returns the least entry, nil when the heap is empty.
func (h *entryHeap) first() *entry {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0]
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (h *entryHeap) Len() int           { return len(h.entries) }
func (h *entryHeap) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }
func (h *entryHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	*h.place(h.entries[i]), *h.place(h.entries[j]) = i+1, j+1
}

func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	h.entries = append(h.entries, e)
	*h.place(e) = len(h.entries)
}

func (h *entryHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	*h.place(e) = 0
	return e
}
