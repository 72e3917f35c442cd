package main

import (
	"fmt"
	"slices"
)

// The rule by which a figure is flat. Samples are noisy: heaps fill and are collected, probes come together. So only medians
// are compared. What was there before the warm-up ended does not count.
const (
	// stretches are equal parts of the time after the warm-up. In each of them the same happens, and each has one median. The
	// line goes through these.
	stretches    = 8
	quarters     = 4
	leastSamples = 10 * stretches
	flatShare    = 0.05 // of the figure itself
)

// figure is one thing that must not grow.
type figure struct {
	name, unit string
	slack      float64 // growth that is always allowed: the share of a small figure is less than its noise
	of         func(*sample) float64
}

// growth is what became of a figure after the warm-up.
type growth struct {
	second, last float64 // medians of the second and the last quarter
	rise         float64 // of the least-squares line through the medians of all stretches, over all of that time
	limit        float64 // of both last-second and rise
}

func (g growth) flat() bool { return g.last-g.second <= g.limit && g.rise <= g.limit }

// growthOf returns how a figure has grown over the samples, which are equally far from each other.
func growthOf(f figure, samples []sample) (growth, error) {
	if len(samples) < leastSamples {
		return growth{}, fmt.Errorf("%d samples are too few to say whether the %s is flat: %d are needed", len(samples), f.name, leastSamples)
	}
	second := medianOf(f, part(samples, 1, quarters))
	g := growth{second: second, last: medianOf(f, part(samples, quarters-1, quarters)), limit: max(f.slack, flatShare*second)}
	var medians []float64
	for i := range stretches {
		medians = append(medians, medianOf(f, part(samples, i, stretches)))
	}
	g.rise = slope(medians) * stretches
	return g, nil
}

// part returns the i-th of n equal parts.
func part(samples []sample, i, n int) []sample {
	return samples[i*len(samples)/n : (i+1)*len(samples)/n]
}

func medianOf(f figure, samples []sample) float64 {
	var values []float64
	for i := range samples {
		values = append(values, f.of(&samples[i]))
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// slope is that of the least-squares line through values at the places 0, 1, 2 and so on.
func slope(values []float64) float64 {
	var x, y float64 // means
	for i, v := range values {
		x += float64(i) / float64(len(values))
		y += v / float64(len(values))
	}
	var xy, xx float64
	for i, v := range values {
		xy += (float64(i) - x) * (v - y)
		xx += (float64(i) - x) * (float64(i) - x)
	}
	return xy / xx
}
