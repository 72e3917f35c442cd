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

// latencies is what a Histogram has of one container, in half the memory.
type latencies struct {
	sum    time.Duration
	counts [len(LatencyBuckets) + 1]uint32
}

func (l *latencies) observe(d time.Duration) {
	l.counts[BucketOf(LatencyBuckets[:], d)]++
	l.sum += d
}

func (l *latencies) histogram() Histogram {
	h := Histogram{Sum: l.sum.Seconds()}
	for i, n := range l.counts {
		h.Counts[i] = uint64(n)
	}
	return h
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
