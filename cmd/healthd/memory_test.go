package main

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for _, tt := range []struct {
		used, made uint64
		want       int
	}{
		{0, 0, 100}, {1 << 20, 0, 100}, {12 << 20, 0, 100}, {24 << 20, 0, 50}, {48 << 20, 3 << 20, 25}, {100 << 20, 0, 12}, {10 << 30, 0, 10},
		{100 << 20, 6 << 20, 18}, {100 << 20, 10 << 20, 30}, {100 << 20, 100 << 20, 100},
	} {
		if got := garbagePercent(tt.used, tt.made); got != tt.want {
			t.Errorf("%d MiB in use, %d made a second: %d, want %d", tt.used>>20, tt.made>>20, got, tt.want)
		}
	}
}

// One busy second moves little, and is soon forgotten; a busy minute counts in full.
func TestGarbageRate(t *testing.T) {
	g := garbage{rate: 4}
	g.note(24)
	if g.rate != 9 {
		t.Errorf("after a busy second: %v, want 9", g.rate)
	}
	for range 10 {
		g.note(4)
	}
	if g.rate > 5 {
		t.Errorf("ten seconds later: %v, want about 4", g.rate)
	}
	for range 60 {
		g.note(24)
	}
	if g.rate < 23 {
		t.Errorf("after a busy minute: %v, want about 24", g.rate)
	}
}

// Whoever sets GOGC is obeyed; else the percentage follows what is in use.
func TestGarbageFollowsWhatIsInUse(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	present := func() int {
		p := debug.SetGCPercent(77)
		debug.SetGCPercent(p)
		return p
	}
	t.Setenv("GOGC", "77")
	newGarbage().adjust(time.Now())
	if got := present(); got != 77 {
		t.Errorf("it was set to 77, and is %d", got)
	}
	t.Setenv("GOGC", "")
	g := newGarbage()
	if got := present(); got != startGarbage {
		t.Errorf("at the start it is %d, want %d", got, startGarbage)
	}
	g.adjust(time.Now())
	if got := present(); got < leastGarbage || got > mostGarbage || got != g.percent {
		t.Errorf("later it is %d, %d was set", got, g.percent)
	}
}
