package engines

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// Before its first results a container is not ready, alive and not started. A missing probe
// counts as Success.
func resultsBeforeTheFirstProbe(t *testing.T, e harness.Engine) {
	tests := []struct {
		name           string
		probes         []string
		started, ready bool
	}{
		{"unasked-none", nil, true, true},
		{"unasked-liveness", []string{"liveness"}, true, true},
		{"unasked-readiness", []string{"readiness"}, true, false},
		{"unasked-startup", []string{"startup"}, false, false},
		{"unasked-all", []string{"startup", "liveness", "readiness"}, false, false},
	}
	var specs strings.Builder
	for _, tt := range tests {
		fmt.Fprintf(&specs, "[[spec]]\nname = %[1]q\nmatch = { e2e = %[1]q }\n", tt.name)
		for _, probe := range tt.probes {
			fmt.Fprintf(&specs, "%s = { tcp_socket = { port = 8080 }, initial_delay = \"1h\" }\n", probe)
		}
	}
	d := harness.StartDaemonOn(t, e, specs.String())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := d.In(t)
			e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: map[string]string{"e2e": tt.name}})
			d.Until(tt.name, "running", func(s harness.Status) bool { return s.State.Running != nil })
			d.Stays(time.Second, tt.name, "as before the first probe", func(s harness.Status) bool {
				for probe, want := range map[string]string{"startup": "Unknown", "liveness": "Success", "readiness": "Failure"} {
					p, has := s.Probes[probe]
					if has != slices.Contains(tt.probes, probe) || has && (p.Result != want || !p.LastProbeTime.IsZero()) {
						return false
					}
				}
				return s.Started == tt.started && s.Ready == tt.ready && s.RestartCount == 0
			})
		})
	}
}

// The first probe comes exactly after initial_delay, not at a multiple of the period.
func firstProbeComesAtInitialDelay(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "onetime"
match = { e2e = "onetime" }
[spec.readiness]
tcp_socket = { port = 8080 }
initial_delay = "1500ms"
period = "1h"
`)
	e.Run(t, dockertest.RunOptions{Name: "onetime", Labels: map[string]string{"e2e": "onetime"}})
	s := d.Until("onetime", "ready", harness.Ready)
	const delay = 1500 * time.Millisecond
	if after := s.Probes["readiness"].LastProbeTime.Sub(s.State.Running.StartedAt); after < delay {
		t.Errorf("the first probe came %v after the start, want %v", after, delay)
	}
}

// Failures of one run do not count in the next one.
func newRunResetsCounts(t *testing.T, e harness.Engine) {
	const threshold = 10
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "afresh"
match = { e2e = "afresh" }
[spec.liveness]
tcp_socket = { port = 8099 }
period = "400ms"
failure_threshold = 10
`)
	id := e.Run(t, dockertest.RunOptions{Name: "afresh", Labels: map[string]string{"e2e": "afresh"}})
	d.Until("afresh", "on its way to a restart", func(s harness.Status) bool { return s.Probes["liveness"].Run >= 4 })
	e.RestartByOperator(t, id)
	d.Eventually("restart it", func() error { return harness.AtLeast(1, d.CountEvents("afresh", "Killing")) })
	var failures []int // of each run
	for _, reason := range d.Reasons("afresh") {
		switch reason {
		case "Started":
			failures = append(failures, 0)
		case "Unhealthy":
			failures[len(failures)-1]++
		}
	}
	if len(failures) < 2 || failures[0] >= threshold || failures[1] != threshold {
		t.Errorf("%v probes failed in each run, want some in the first and %d in the second", failures, threshold)
	}
}

// A paused container is not probed and not ready. Its counts go on when it is unpaused.
func pausedKeepsItsCounts(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "asleep"
match = { e2e = "asleep" }
[spec.readiness]
tcp_socket = { port = 8080 }
period = "200ms"
[spec.liveness]
tcp_socket = { port = 8099 }
period = "200ms"
failure_threshold = 1000
`)
	id := e.Run(t, dockertest.RunOptions{Name: "asleep", Labels: map[string]string{"e2e": "asleep"}})
	d.Until("asleep", "ready, and failing", func(s harness.Status) bool { return s.Ready && s.Probes["liveness"].Run >= 5 })
	e.Pause(t, id)
	paused := d.Until("asleep", "paused", func(s harness.Status) bool { return s.Condition("Ready").Reason == "Paused" })
	d.Stays(2*time.Second, "asleep", "paused, and not asked", func(s harness.Status) bool {
		return !s.Ready && s.Probes["liveness"].Run == paused.Probes["liveness"].Run && s.Probes["readiness"] == paused.Probes["readiness"]
	})
	e.Unpause(t, id)
	before := paused.Probes["liveness"].Run
	d.Until("asleep", "ready and asked again", func(s harness.Status) bool {
		if s.Probes["liveness"].Run < before {
			t.Fatalf("%d failures in a row, there were %d before the pause", s.Probes["liveness"].Run, before)
		}
		return s.Ready && s.Probes["liveness"].Run > before
	})
	if s, _ := d.Status("asleep"); s.RestartCount != 0 {
		t.Error("it was restarted")
	}
}
