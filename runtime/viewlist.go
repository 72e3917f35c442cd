package runtime

import (
	"maps"
	"slices"
)

// list folds a full list.
func (v *view) list(all []Summary) {
	present := make(map[string]Summary, len(all))
	for _, s := range all {
		present[s.ID] = s
	}
	for _, s := range all {
		if !v.wanted(s.Name, s.Labels) {
			v.ignore(s.ID)
			continue
		}
		delete(v.ignored, s.ID)
		e := v.entries[s.ID]
		if e == nil {
			e = v.add(s.ID)
		}
		if e.known == nil || e.unsure || !s.Fits(e.known) || !e.known.networkFits(present) {
			v.dirty(e)
		}
		if e.flight != idle || e.held != nil {
			v.syncing[e] = struct{}{}
		}
	}
	for id := range v.ignored {
		if _, ok := present[id]; !ok {
			delete(v.ignored, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if _, ok := present[id]; !ok {
			// It is gone, or was made after the list, or the engine is sick and lists
			// nothing: only an inspection can tell.
			e := v.entries[id]
			v.dirty(e)
			v.syncing[e] = struct{}{}
		}
	}
}
