package runtime

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Docker takes names of 900 kB, of which each metric had one.
func TestLongNamesAreClipped(t *testing.T) {
	long := strings.Repeat("n", 900_000)
	for _, name := range []string{"", "web", strings.Repeat("n", maxName)} {
		if got := ClipName(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
	seen := map[string]bool{}
	for _, name := range []string{long, long + "n", long[:maxName+1], strings.Repeat("é", maxName), "x" + strings.Repeat("é", maxName)} {
		got := ClipName(name)
		if len(got) > maxName || len(got) < maxName-1 || !utf8.ValidString(got) || got[:200] != name[:200] || seen[got] || ClipName(got) != got {
			t.Errorf("%d bytes became %q", len(name), got)
		}
		seen[got] = true
	}
	// What a list and an event say of it is of the container that an inspection shows.
	c := &Container{Name: ClipName(long), State: Running}
	if s := (Summary{Name: long, State: Running}); !s.Matches(c) || s.Traits().Name != c.Name || (Event{Name: long}).traits().Name != c.Name {
		t.Errorf("the list's %q and the event's are others", s.Traits().Name)
	}
}
