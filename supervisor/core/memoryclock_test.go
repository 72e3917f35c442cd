package core

import (
	"testing"
	"time"
	"unsafe"
)

// beforeStep returns t as it was made before the clock was set ahead by step, which is in whole seconds.
func beforeStep(t time.Time, step time.Duration) time.Time {
	const nanosecondBits = 30 // below the seconds of the wall clock, in a time with a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(int64(step/time.Second) << nanosecondBits)
	return t
}

func TestByClock(t *testing.T) {
	now := time.Now()
	engines := now.Round(0).Add(-time.Minute)
	for _, tt := range []struct {
		name        string
		shown, want time.Time
	}{
		{"the clock was not set", now.Add(time.Hour), now.Add(time.Hour)},
		{"it was set ahead", beforeStep(now.Add(time.Hour), 5*time.Hour), now.Add(time.Hour)},
		{"it was set back", beforeStep(now.Add(-time.Hour), -5*time.Hour), now.Add(-time.Hour)},
		{"a time of another clock", engines, engines},
		{"no time", time.Time{}, time.Time{}},
	} {
		if got, want := ByClock(tt.shown, now), tt.want.Round(0).UTC(); got != want {
			t.Errorf("%s: got %v, want %v", tt.name, got, want)
		}
	}
	if made := beforeStep(now, 5*time.Hour); now.Sub(made) != 0 || now.Round(0).Sub(made.Round(0)) != 5*time.Hour {
		t.Fatalf("this test does not set the clock: %v, %v", now, made)
	}
}
