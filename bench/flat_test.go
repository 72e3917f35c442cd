package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The rule sees a leak through noise, and takes no noise for one.
func TestFlat(t *testing.T) {
	f := figure{name: "memory", unit: "MB", slack: 2, of: func(s *sample) float64 { return s.resident }}
	var noise *rand.Rand
	for name, tt := range map[string]struct {
		at   func(share float64, i int) float64 // share of the time, number of the sample
		flat bool
	}{
		"still":             {func(float64, int) float64 { return 100 }, true},
		"noise":             {func(float64, int) float64 { return 100 + 40*noise.Float64() }, true},
		"a saw":             {func(_ float64, i int) float64 { return 100 + float64(i%17)*3 }, true},
		"it falls":          {func(share float64, _ int) float64 { return 200 - 50*share }, true},
		"a spike":           {func(_ float64, i int) float64 { return 100 + 5000*one(i > 480 && i < 490) }, true},
		"little growth":     {func(share float64, _ int) float64 { return 100 + 4*share }, true},
		"a leak":            {func(share float64, _ int) float64 { return 100 + 12*share }, false},
		"a leak in noise":   {func(share float64, _ int) float64 { return 100 + 20*share + 20*noise.Float64() }, false},
		"a step":            {func(share float64, _ int) float64 { return 100 + 10*one(share > 0.6) }, false},
		"a late step":       {func(share float64, _ int) float64 { return 100 + 10*one(share > 0.8) }, false},
		"slack of a few":    {func(share float64, _ int) float64 { return 10 + 1.5*share }, true},
		"more than a slack": {func(share float64, _ int) float64 { return 10 + 4*share }, false},
	} {
		t.Run(name, func(t *testing.T) {
			noise = rand.New(rand.NewPCG(1, 2))
			const n = 540
			var samples []sample
			for i := range n {
				samples = append(samples, sample{resident: tt.at(float64(i)/n, i)})
			}
			if g, err := growthOf(f, samples); err != nil || g.flat() != tt.flat {
				t.Errorf("%+v, %v: flat %v, want %v", g, err, g.flat(), tt.flat)
			}
		})
	}
	if _, err := growthOf(f, make([]sample, leastSamples-1)); err == nil {
		t.Error("too few samples are judged")
	}
}

func TestSlope(t *testing.T) {
	if got := slope([]float64{1, 3, 5, 7}); math.Abs(got-2) > 1e-9 {
		t.Errorf("got %v, want 2", got)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
