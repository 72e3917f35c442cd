package core

import (
	"slices"
	"testing"
	"time"
)

// healthd has no period after which it looks at all containers, so NextTick must be exact.
func TestNextTick(t *testing.T) {
	const nothing = -1
	for _, tt := range []struct {
		name  string
		lines []string
		want  time.Duration // from the end of the lines
		acts  []string
	}{
		{"an end leads to a start at once", []string{"0s runs", "5s exits 1"}, nothing, []string{"START"}},
		{"nothing is due", []string{"0s runs", "1m"}, nothing, nil},
		{"the next probe", []string{"liveness=0s/20s/1/3", "0s runs"}, 20 * time.Second, nil},
		{"the retry of a failed call", []string{"0s stop-fails yes", "0s runs", "5s restart-asked", "5001ms"}, 9999 * time.Millisecond, []string{"STOP grace 30s"}},
		{"the end of a back-off", []string{"backoff=5s/1m/1h", "0s runs", "1s exits 1", "2s exits 1"}, 5 * time.Second, []string{"START"}},
		{"a drain that ends before the next probe", []string{"readiness=0s/20s/1/3 drain=7s", "0s runs", "1s restart-asked"}, 7 * time.Second, nil},
		{"a probe before the drain ends", []string{"readiness=0s/3s/1/3 drain=7s", "0s runs", "1s restart-asked"}, 2 * time.Second, nil},
		{"the earlier of two probes", []string{"readiness=0s/5s/1/3 liveness=0s/3s/1/3", "0s runs"}, 3 * time.Second, nil},
		{"a back-off that is over leads to a start at once", []string{"0s runs", "1s exits 1", "2s exits 1", "3s engine-lost", "1m engine-back"}, nothing, []string{"START", "START"}},
		{"the end of a long back-off", []string{"backoff=1h/1h/2h", "0s runs", "1s exits 1", "2s exits 1"}, time.Hour, []string{"START"}},
		{"while the engine is away no back-off ends", []string{"0s runs", "1s exits 1", "2s exits 1", "3s engine-lost"}, nothing, []string{"START"}},
		{"while the engine is away no drain ends, but probes go on", []string{"readiness=0s/20s/1/3 drain=7s", "0s runs", "1s restart-asked", "2s engine-lost"}, 18 * time.Second, nil},
		{"the retry of a hook that could not run", []string{"post-start=1s", "0s post-start cannot", "0s runs", "2s"}, 9 * time.Second, []string{"PostStart HOOK within 5m1s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "191")
			for range 2 { // without jitter both are the same
				sim := simulate(t, tt.lines...)
				got := time.Duration(nothing)
				if due := NextTick(&sim.state); !due.IsZero() {
					got = due.Sub(sim.now).Round(time.Millisecond)
				}
				if acts := sim.actions(); got != tt.want || !slices.Equal(acts, tt.acts) {
					t.Errorf("due in %v, want %v; acts %q, want %q\n%s", got, tt.want, acts, tt.acts, sim.transcript.String())
				}
			}
		})
	}
}
