package notify

import (
	"maps"
	"slices"
	"time"
)

// The reasons of incidents. Receivers may also name reasons of events.
const (
	GaveUp        = "GaveUp"        // healthd does not restart a container any more
	CrashLoop     = "CrashLoop"     // a container ends again and again
	ServiceDown   = "ServiceDown"   // no member of a service is ready
	RuntimeLost   = "RuntimeLost"   // an engine cannot be reached
	JournalFailed = "JournalFailed" // what healthd knows is not on the disk
)

// Reasons returns the reasons of incidents, which receivers are told of by default.
func Reasons() []string { return []string{GaveUp, CrashLoop, ServiceDown, RuntimeLost, JournalFailed} }

// subject is what an incident or an event is about. Empty fields do not apply.
type subject struct {
	Reason    string `json:"reason"`
	Runtime   string `json:"runtime,omitempty"`
	Container string `json:"container,omitempty"` // the name by which commands find it
	Service   string `json:"service,omitempty"`
	Project   string `json:"project,omitempty"`
}

// key tells incidents apart. A container that was created again under its name goes on with
// the incident of the old one.
func (s *subject) key() string {
	if s.Container != "" {
		return s.Reason + " " + s.Runtime + " " + s.Container
	}
	return s.Reason + " " + s.Runtime + " " + s.Service
}

// incident is something wrong that lasts.
type incident struct {
	subject
	Since time.Time
	Cause string // why, with what the probe or the engine said
	Next  string // what healthd does, and what somebody can do
}

// finding is what looks wrong now. It is an incident once healthd has seen it for After.
type finding struct {
	incident // Since is zero where the board does not tell
	After    time.Duration
}

// facts are what the board shows of what is wrong.
type facts struct {
	wrong map[string]finding // by key
	// ending are containers that the engine starts again, and that ended by themselves before their present run.
	ending map[string]ending
	// unsettled are keys of open incidents of which nobody can say now whether they last: their engine is away, or
	// their container has not run for long.
	unsettled map[string]bool
}

// ending is a container that is in a crash loop if its restarts become many.
type ending struct {
	incident
	restarts int // so far
}

// A container that the engine starts again is in a crash loop after so many restarts within so long.
const (
	crashLoopRestarts = 3
	crashLoopWindow   = 10 * time.Minute
)

// window counts the restarts of a container since a moment.
type window struct {
	from time.Time
	base int // restarts before
}

// incidents are what is wrong now.
type incidents struct {
	open    map[string]incident
	since   map[string]time.Time // when a finding that is no incident yet was first seen
	windows map[string]window    // of containers that may be in a crash loop
}

func newIncidents() incidents {
	return incidents{open: map[string]incident{}, since: map[string]time.Time{}, windows: map[string]window{}}
}

// step takes in the newest facts. It returns when the next finding becomes an incident; zero: none waits.
func (s *incidents) step(f facts, now time.Time) (next time.Time) {
	s.countEndings(&f, now)
	for key := range s.open {
		if _, lasts := f.wrong[key]; !lasts && !f.unsettled[key] {
			delete(s.open, key)
		}
	}
	maps.DeleteFunc(s.since, func(key string, _ time.Time) bool { _, lasts := f.wrong[key]; return !lasts })
	for key, found := range f.wrong {
		if known, ok := s.open[key]; ok {
			found.Since = known.Since
			s.open[key] = found.incident
			continue
		}
		first, seen := s.since[key]
		if !seen {
			first = now
			s.since[key] = first
		}
		if found.Since.IsZero() || found.Since.After(first) {
			found.Since = first
		}
		if due := first.Add(found.After); now.Before(due) { // not from Since: probes may not have asked since a restart of healthd
			next = earliest(next, due)
			continue
		}
		delete(s.since, key)
		s.open[key] = found.incident
	}
	return next
}

// countEndings makes findings of the containers that the engine has started again too often.
func (s *incidents) countEndings(f *facts, now time.Time) {
	maps.DeleteFunc(s.windows, func(key string, _ window) bool { _, still := f.ending[key]; return !still })
	for key, e := range f.ending {
		w, known := s.windows[key]
		if !known || now.Sub(w.from) > crashLoopWindow || e.restarts < w.base {
			w = window{now, e.restarts}
			if !known {
				w.base-- // the restart that made it one of these
			}
		}
		s.windows[key] = w
		if e.restarts-w.base >= crashLoopRestarts {
			f.wrong[key] = finding{incident: e.incident}
		}
	}
}

// earliest returns the earlier one of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sortedKeys returns the keys in an order that does not change: messages have it, too.
func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
