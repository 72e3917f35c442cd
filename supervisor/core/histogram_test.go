package core

import (
	"testing"
	"time"

	"healthd/prober"
)

func TestBucketOf(t *testing.T) {
	for d, want := range map[time.Duration]int{0: 0, 5 * time.Millisecond: 0, 6 * time.Millisecond: 1, 10 * time.Second: 10, time.Minute: 11} {
		if got := BucketOf(LatencyBuckets[:], d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
		var totals Totals
		totals.Count(Readiness, prober.Result{Outcome: prober.Success, Latency: d})
		if h := totals.Latency(Readiness); h.Counts[want] != 1 || h.Sum != d.Seconds() {
			t.Errorf("%v: got %+v", d, h)
		}
	}
}
