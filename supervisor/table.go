package supervisor

import (
	"hash/maphash"
	"maps"
	"sync/atomic"
)

// table is a map that one goroutine alone writes. Any goroutine may read it: neither waits for the other. A
// write copies the part that the key is in, of tableParts. It takes a fifth of the memory of a sync.Map. The
// zero table is empty.
type table[K comparable, V any] struct {
	parts [tableParts]atomic.Pointer[map[K]V]
}

// tableParts keeps a part of 10,000 containers at 20 entries.
const tableParts = 512

var tableSeed = maphash.MakeSeed()

func (t *table[K, V]) part(key K) *atomic.Pointer[map[K]V] {
	return &t.parts[maphash.Comparable(tableSeed, key)%tableParts]
}

// get returns the zero V for a key that is not there.
func (t *table[K, V]) get(key K) (value V, found bool) {
	if m := t.part(key).Load(); m != nil {
		value, found = (*m)[key]
	}
	return value, found
}

func (t *table[K, V]) set(key K, value V) {
	p := t.part(key)
	m := map[K]V{}
	if old := p.Load(); old != nil {
		m = maps.Clone(*old)
	}
	m[key] = value
	p.Store(&m)
}

func (t *table[K, V]) remove(key K) {
	p := t.part(key)
	old := p.Load()
	if old == nil {
		return
	}
	// A clone would keep the room of all that were ever there.
	m := make(map[K]V, len(*old))
	for k, v := range *old {
		if k != key {
			m[k] = v
		}
	}
	p.Store(&m)
	if len(m) == 0 {
		p.Store(nil)
	}
}

// all yields each entry, in no order. What changes meanwhile may be there or not.
func (t *table[K, V]) all(yield func(K, V) bool) {
	for i := range t.parts {
		m := t.parts[i].Load()
		if m == nil {
			continue
		}
		for k, v := range *m {
			if !yield(k, v) {
				return
			}
		}
	}
}
