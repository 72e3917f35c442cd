package main

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for _, tt := range []struct {
		used uint64
		want int
	}{
		{0, 100}, {1 << 20, 100}, {12 << 20, 100}, {24 << 20, 50}, {48 << 20, 25}, {100 << 20, 12}, {10 << 30, 10},
	} {
		if got := garbagePercent(tt.used); got != tt.want {
			t.Errorf("%d MiB in use: %d, want %d", tt.used>>20, got, tt.want)
		}
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
