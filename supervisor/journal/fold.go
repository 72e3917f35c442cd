package journal

import (
	"slices"
	"time"

	"healthd/supervisor/core"
)

// Of a container's events with one reason the first foldAfter are kept one by one. While more
// come, one is kept in each foldEvery, with the newest message and the count of those that it
// stands for. After foldQuiet without any, they count from the beginning. The kubelet's
// EventCorrelator has the same bounds of number and quiet time; it has one event for all repeats,
// which does not tell when there were many.
//
// Events without a container are about different things: only those with the same message are folded.
const (
	foldAfter = 25
	foldEvery = time.Minute
	foldQuiet = 10 * time.Minute
)

// combined is before the message of an event that stands for others with different ones, as in
// the kubelet's.
const combined = "(combined from similar events) "

// foldKey says whose repeats are folded into one. Message is of events without a container.
type foldKey struct{ container, reason, message string }

// repeats are the events of one foldKey.
type repeats struct {
	kept   int // events that were kept one by one
	last   time.Time
	folded *core.Event // stands for those not yet in the history; nil: there are none
	mixed  bool        // folded stands for different messages
}

// folds holds back events that repeat, for about Size containers and reasons. Journal.mu guards it.
type folds struct {
	repeats map[foldKey]*repeats
	waiting []*repeats  // with folded, in the order of their first ones
	timer   *time.Timer // of the next settle; nil: nothing waits
}

// holdBack says whether ev repeats too often to be kept by itself.
func (f *folds) holdBack(ev core.Event, now time.Time) bool {
	key := foldKey{container: ev.Container, reason: ev.Reason}
	if ev.Container == "" {
		key.message = ev.Message
	}
	r := f.repeats[key]
	if r == nil {
		f.forget(now)
		r = &repeats{}
		f.repeats[key] = r
	}
	if now.Sub(r.last) > foldQuiet && r.folded == nil {
		r.kept = 0
	}
	r.last = now
	if r.kept < foldAfter {
		r.kept++
		return false
	}
	f.fold(r, ev)
	return true
}

func (f *folds) fold(r *repeats, ev core.Event) {
	if r.folded == nil {
		ev.Count, ev.First = 1, ev.Time
		r.folded, r.mixed = &ev, false
		f.waiting = append(f.waiting, r)
		return
	}
	r.mixed = r.mixed || ev.Message != r.folded.Message
	if ev.Probe != r.folded.Probe {
		r.folded.Probe = ""
	}
	r.folded.Time, r.folded.Message, r.folded.Detected = ev.Time, ev.Message, max(r.folded.Detected, ev.Detected)
	r.folded.Count++
}

// event returns the event that stands for the repeats.
func (r *repeats) event() core.Event {
	ev := *r.folded
	switch {
	case ev.Count == 1: // it is no repeat by itself
		ev.Count, ev.First = 0, time.Time{}
	case r.mixed:
		ev.Message = combined + ev.Message
	}
	return ev
}

// settle returns the events that stand for what was held back, oldest first.
func (f *folds) settle() []core.Event {
	events := f.pending("")
	for _, r := range f.waiting {
		r.folded = nil
	}
	f.waiting = nil
	return events
}

// pending returns what settle would return, of one container if name is not empty.
func (f *folds) pending(name string) []core.Event {
	var events []core.Event
	for _, r := range f.waiting {
		if name == "" || r.folded.Container == name {
			events = append(events, shorten(r.event()))
		}
	}
	slices.SortStableFunc(events, func(x, y core.Event) int { return x.Time.Compare(y.Time) })
	return events
}

// forget drops what has been quiet for long, when there are many.
func (f *folds) forget(now time.Time) {
	if len(f.repeats) < Size {
		return
	}
	for key, r := range f.repeats {
		if now.Sub(r.last) > foldQuiet && r.folded == nil {
			delete(f.repeats, key)
		}
	}
	if len(f.repeats) >= Size { // of names that hardly ever come again: nothing is lost but their counts
		for key, r := range f.repeats {
			if r.folded == nil {
				delete(f.repeats, key)
			}
		}
	}
}
