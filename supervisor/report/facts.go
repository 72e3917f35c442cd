package report

import (
	"strings"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// read makes it what a board shows. Containers of a runtime count once all of that runtime are known: a
// service with half of its members would seem to be ill.
func (seen *sight) read(b *supervisor.Board, now time.Time) {
	known := map[string]bool{}
	for _, r := range b.Runtimes() {
		known[r.Name] = r.Synced
	}
	seen.complete, seen.facts, seen.restarts = b.Synced(), seen.facts[:0], seen.restarts[:0]
	places := make(map[string]int, cap(seen.facts))
	for v := range b.All() {
		if v.Spec == nil || v.Service == "" || !known[v.Container.Runtime] {
			continue
		}
		name := strings.ToValidUTF8(v.Service, "\uFFFD") // as the file and the metrics have it
		i, found := places[name]
		project := core.ProjectOf(v.Container.Labels)
		if !found {
			i = len(seen.facts)
			places[name] = i
			seen.facts = append(seen.facts, fact{name: name, project: project})
		}
		f := &seen.facts[i]
		if f.project != project {
			f.project = ""
		}
		f.take(v, now)
		if v.State.Run.ID != (runtime.Run{}) { // with its first run it gets the count of the container before it
			seen.restarts = append(seen.restarts, restarts{v.Container.ID, name, v.State.Lasting.Restarts})
		}
	}
}

// take adds a member to what is known of its service.
func (f *fact) take(v *core.View, now time.Time) {
	ready, _, _ := v.Readiness()
	if !ready && !v.ShouldServe() {
		f.stopped++
	} else {
		f.members++
	}
	since := v.State.Conditions.Ready.Since
	if since.IsZero() {
		since = now
	}
	age := now.Sub(since)
	switch {
	case ready:
		f.ready++
		f.upFor = max(f.upFor, age)
	case f.members+f.stopped-f.ready == 1: // the first that is not ready
		f.downFor = age
	default:
		f.downFor = min(f.downFor, age)
	}
}
