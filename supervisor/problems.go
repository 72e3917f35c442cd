package supervisor

import (
	"maps"
	"slices"
	"sync"
)

// Problems is what an outlet cannot do now: what status, explain, check --daemon and the page warn of. The zero value has
// none. Any goroutine may use it.
type Problems struct {
	mu sync.Mutex
	by map[string][]string
}

// Set says what is wrong about one thing, in place of what was said before; nothing: all is well.
func (p *Problems) Set(about string, texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(texts) == 0 {
		delete(p.by, about)
		return
	}
	if p.by == nil {
		p.by = make(map[string][]string)
	}
	p.by[about] = texts
}

// All returns all texts, by what they are about.
func (p *Problems) All() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, about := range slices.Sorted(maps.Keys(p.by)) {
		all = append(all, p.by[about]...)
	}
	return all
}
