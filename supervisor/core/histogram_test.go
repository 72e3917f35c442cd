package core

import (
	"testing"
	"time"
)

func TestBucketOf(t *testing.T) {
	for d, want := range map[time.Duration]int{0: 0, 5 * time.Millisecond: 0, 6 * time.Millisecond: 1, 10 * time.Second: 10, time.Minute: 11} {
		if got := BucketOf(LatencyBuckets[:], d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
		var h Histogram
		if h.observe(d); h.Counts[want] != 1 || h.Sum != d.Seconds() {
			t.Errorf("%v: got %+v", d, h)
		}
	}
}
