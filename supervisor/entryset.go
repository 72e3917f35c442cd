package supervisor

// entrySet is a set of entries, each of which knows its place in it. Its order depends on
// nothing but the calls of set.
type entrySet struct {
	entries []*entry
	place   func(*entry) *int // of the entry in this set, from 1; 0: it is not there
}

// set puts e in or takes it out.
func (s *entrySet) set(e *entry, in bool) {
	at := s.place(e)
	switch {
	case in && *at == 0:
		s.entries = append(s.entries, e)
		*at = len(s.entries)
	case !in && *at > 0:
		last := len(s.entries) - 1
		moved := s.entries[last]
		s.entries[*at-1], s.entries[last] = moved, nil
		*s.place(moved), *at = *at, 0
		s.entries = s.entries[:last]
	}
}
