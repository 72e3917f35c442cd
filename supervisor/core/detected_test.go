package core

import (
	"slices"
	"testing"
	"time"
)

// A failure is detected by the verdict: it took from the first failed probe of the row to the last one.
func TestDetection(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name  string
		lines []string
		want  []time.Duration
	}{
		{"liveness", []string{"liveness=0s/10s/1/3", "0s runs", "15s liveness fails", "45s"}, []time.Duration{20 * s}},
		{"once, though nothing restarts it", []string{"on-failure=none", "liveness=0s/10s/1/3", "0s runs", "15s liveness fails", "3m"}, []time.Duration{20 * s}},
		{"a success begins the row anew", []string{"liveness=0s/10s/1/3", "0s runs", "15s liveness fails", "35s liveness succeeds", "45s liveness fails", "71s"}, []time.Duration{20 * s}},
		{"startup", []string{"startup=0s/10s/1/3", "0s startup fails", "0s runs", "21s"}, []time.Duration{20 * s}},
		{"readiness", []string{"readiness=0s/10s/1/2", "0s runs", "15s readiness fails", "1m"}, []time.Duration{10 * s}},
		{"not of a container that has never been ready", []string{"readiness=0s/10s/1/2", "0s readiness fails", "0s runs", "1m"}, nil},
		{"again after it was", []string{"readiness=0s/10s/1/2", "0s readiness fails", "0s runs", "25s readiness succeeds", "35s readiness fails", "1m"}, []time.Duration{10 * s}},
		{"no failure up to the threshold", []string{"liveness=0s/10s/1/3", "0s runs", "15s liveness fails", "35s liveness succeeds", "1m"}, nil},
	} {
		sim := simulate(t, tt.lines...)
		got := slices.Clone(sim.detected)
		for i := range got {
			got[i] = got[i].Round(s)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
