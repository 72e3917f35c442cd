package containerd

import (
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
)

// A container that was made while healthd was away is new. However the wall clock was set, none is
// that was there before.
func TestMadeSince(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	const since, now = 30, 60 // by the records' clock
	for _, tt := range []struct {
		name    string
		created int // by the wall clock, in minutes like all that follows
		wall    int // what it shows now
		seen    int // when healthd saw the container, by the records' clock; 0: it did not
		want    bool
	}{
		{"made before", 20, now, 0, false},
		{"made since", 40, now, 0, true},
		{"made and seen since: a healthd may have died of that", 40, now, 41, true},
		{"made and seen before", 20, now, 21, false},
		{"made since, then the clock was set forward", 40, 90, 0, false},
		{"the clock was set forward, then made since", 70, 90, 0, true},
		{"the clock was set forward, then made before", 50, 90, 0, false},
		{"made before, then the clock was set back", 20, 21, 0, false},
		{"made before, then the clock was set back to before that", 20, 10, 0, false},
		{"the clock was set back, then made since", 10, 30, 0, false},
		{"made and seen while the clock was ahead for a while, before", 50, now, 20, false},
		{"made while the clock was far ahead for a while, before", 80, now, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := &record{}
			if tt.seen != 0 {
				rec.Created, rec.Seen = at(tt.created).UnixNano(), at(tt.seen).UnixNano()
			}
			told := at(now - max(0, tt.wall-tt.created))
			if got := rec.madeSince(at(since), at(tt.created), told, at(tt.wall)); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// A record tells since when healthd knows the container, and not one before it of the same ID.
func TestSeen(t *testing.T) {
	c, rec := testClock(), &record{}
	began := c.now()
	l := &look{container: containers.Container{ID: "web", CreatedAt: time.Now()}}
	rec.look(c, l)
	first := rec.Seen
	if rec.look(c, l); first < began.UnixNano() || rec.Seen != first {
		t.Errorf("got %d and then %d", first, rec.Seen)
	}
	l.container.CreatedAt = l.container.CreatedAt.Add(time.Second)
	if rec.look(c, l); rec.Seen <= first {
		t.Errorf("another container of that ID: got %d after %d", rec.Seen, first)
	}
}
