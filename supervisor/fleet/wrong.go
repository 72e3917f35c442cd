package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// wrongKeys are keys of the store that are none of healthd's, by name or value.
type wrongKeys struct {
	names  map[string]bool
	before map[string]bool // what the list before had
	isNew  bool            // some were not told of
	at     time.Time       // of the newest event
}

// relist forgets all: a list is about to say which there are.
func (w *wrongKeys) relist() { w.before, w.names = w.names, map[string]bool{} }

func (w *wrongKeys) add(name string, most int) {
	name = strings.Clone(cut(name, maxName))
	if len(w.names) < most && !w.names[name] {
		w.names[name] = true
		w.isNew = w.isNew || !w.before[name]
	}
}

func (w *wrongKeys) list() []string { return slices.Sorted(maps.Keys(w.names)) }

// tellWrong tells of wrong keys that are new, at most once an hour.
func (v *view) tellWrong(now time.Time) {
	w := &v.wrong
	if !w.isNew || len(w.names) == 0 || !w.at.IsZero() && now.Sub(w.at) < wrongAgain {
		return
	}
	w.at, w.isNew = now, false
	const most = 3
	names := w.list()
	var said []string
	for _, name := range names[:min(most, len(names))] {
		said = append(said, fmt.Sprintf("%.100q", name))
	}
	if len(names) > most {
		said = append(said, fmt.Sprintf("and %d more", len(names)-most))
	}
	v.tell(eventError, "Keys of the fleet have a name or value that is not healthd's, and are left alone: %s", strings.Join(said, ", "))
}
