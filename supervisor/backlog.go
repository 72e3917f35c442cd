package supervisor

import "time"

// What concerns many containers at once, such as the loss of an engine or a reload, is
// cut into slices, so that 10,000 containers keep no message waiting. A message about
// one of them comes after what the container is still owed.

// slice bounds what the loop does of one kind of work before it turns to the next kind.
type slice struct {
	steps int
	end   time.Time // zero: not begun
}

// A slice ends after so many steps, or after that time.
const (
	sliceSteps = 256
	sliceTime  = 2 * time.Millisecond
)

// next says whether there is room for one more step. There is always room for one.
func (s *slice) next() bool {
	now := time.Now()
	if s.end.IsZero() {
		s.end = now.Add(sliceTime)
	}
	s.steps--
	return s.steps >= 0 && now.Before(s.end)
}

func (l *loop) newSlice() slice { return slice{steps: l.sliceSteps} }

// eachLater has do called for each of these entries, in their order. An entry that is
// dropped before misses it.
func (l *loop) eachLater(all []*entry, do func(*entry)) {
	for _, e := range all {
		if e.owed = append(e.owed, do); len(e.owed) == 1 {
			l.backlog = append(l.backlog, func() { l.catchUp(e) })
		}
	}
}

// afterBacklog calls do when all that is in the backlog now is done.
func (l *loop) afterBacklog(do func()) {
	if len(l.backlog) == 0 {
		do()
		return
	}
	l.backlog = append(l.backlog, do)
}

// catchUp does what an entry is owed. It returns false when that has dropped the entry.
func (l *loop) catchUp(e *entry) bool {
	owed := e.owed
	e.owed = nil
	for _, do := range owed {
		if l.entries[e.container.ID] != e {
			return false
		}
		do(e)
	}
	return l.entries[e.container.ID] == e
}

// find returns the entry of a container once it has what it was owed; nil: there is none.
func (l *loop) find(id string) *entry {
	if e := l.entries[id]; e == nil || len(e.owed) == 0 || l.catchUp(e) {
		return e
	}
	return l.entries[id]
}

// workOff does a slice of the backlog.
func (l *loop) workOff() {
	for s := l.newSlice(); len(l.backlog) > 0 && s.next(); {
		do := l.backlog[0]
		l.backlog[0] = nil
		l.backlog = l.backlog[1:]
		do()
	}
	l.storeSeen()
}
