package runtime

import (
	"maps"
	"slices"
	"time"
)

// applyList takes in a list of all containers.
func (v *view) applyList(all []Summary) {
	v.replaying, v.connectedBefore = false, true // the history came before the list
	v.skipTo, v.skipBefore = time.Time{}, time.Time{}
	present := make(map[string]Summary, len(all))
	for _, s := range all {
		present[s.ID] = s
	}
	for _, s := range all {
		if !v.wanted(s.Name, s.Labels) {
			v.ignore(s.ID)
			continue
		}
		delete(v.unwanted, s.ID)
		e := v.entries[s.ID]
		if e == nil {
			e = v.add(s.ID)
		}
		if e.known == nil || e.outdated || !s.Matches(e.known) || !e.known.networkMatches(present) {
			v.requestInspection(e)
		}
		if e.inspect != inspectIdle || e.unexplainedEnd != nil {
			v.listPending[e] = struct{}{}
		}
	}
	for id := range v.unwanted {
		if _, ok := present[id]; !ok {
			delete(v.unwanted, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if _, ok := present[id]; !ok {
			// It was removed, or created after the list was made, or the engine lists too
			// few. Only an inspection can tell which.
			e := v.entries[id]
			v.requestInspection(e)
			v.listPending[e] = struct{}{}
		}
	}
}
