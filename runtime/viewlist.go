package runtime

import (
	"maps"
	"slices"
	"time"
)

// list folds a full list whose call began when seq was since.
func (v *view) list(all []Summary, since uint64) {
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
		e := v.entries[id]
		if _, ok := present[id]; ok {
			continue
		}
		if e.touched > since {
			// Perhaps it was made after the list: only an inspection can tell.
			v.dirty(e)
			v.syncing[e] = struct{}{}
			continue
		}
		v.remove(e, time.Time{})
	}
}
