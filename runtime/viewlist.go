package runtime

import (
	"maps"
	"slices"
	"time"
)

// endReplay notes that the engine's history has come, as far as the list waits for it. If it
// has not the newest event that is known, all of it came after that.
func (v *view) endReplay(now time.Time) {
	if v.skipCertain && !v.skipTo.IsZero() { // the stream is slow: its history is yet to come
		v.skipped, v.replaying, v.connectedBefore = nil, false, true
		return
	}
	skipped := v.skipped
	v.skipTo, v.skipped = time.Time{}, nil
	for _, ev := range skipped {
		v.applyEvent(ev, 0, now)
	}
	v.replaying, v.connectedBefore = false, true
}

// applyList takes in a list of all containers.
func (v *view) applyList(all []Summary, now time.Time) {
	v.endReplay(now)
	present := make(map[string]Summary, len(all))
	for _, s := range all {
		present[s.ID] = s
	}
	for _, s := range all {
		if !v.wanted(s.Traits()) {
			v.ignore(s.ID)
			continue
		}
		e := v.entries[s.ID]
		if e == nil {
			e = v.add(s.ID)
		}
		if e.known == nil && e.unseen == nil {
			e.unseen = &Unseen{Summary: s}
		}
		mayBeRefused := s.State == Created // of a start that failed no event need tell, nor does a list
		if e.known == nil || e.outdated || mayBeRefused || !s.Matches(e.known) || !e.known.networkMatches(present) {
			v.requestInspection(e)
		} else if e.inspect == inspectIdle { // else an event says that there is more than a list can tell
			e.shownInLife = true
		}
		if e.inspect != inspectIdle || e.unexplainedEnd != nil {
			v.listPending[e] = struct{}{}
		}
	}
	for id := range v.unwanted {
		if _, ok := present[id]; !ok {
			v.unwantedGone(id, time.Time{})
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
