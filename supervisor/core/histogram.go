package core

import "time"

// Histogram counts durations by LatencyBuckets.
type Histogram struct {
	Counts [len(LatencyBuckets) + 1]uint64 // not cumulative; the last one is above all bounds
	Sum    float64                         // seconds
}

// LatencyBuckets are the upper bounds, in seconds, of a Histogram's buckets:
// Prometheus' defaults, which the kubelet uses for the same metric.
var LatencyBuckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func (h *Histogram) observe(d time.Duration) {
	h.Counts[BucketOf(LatencyBuckets[:], d)]++
	h.Sum += d.Seconds()
}

// BucketOf returns the index of the first of the ascending bounds, in seconds, that is not below d, and
// len(bounds) when all are. A bound belongs to the bucket that ends with it, as Prometheus has it.
func BucketOf(bounds []float64, d time.Duration) int {
	seconds, i := d.Seconds(), 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	return i
}
