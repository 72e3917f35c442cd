package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// Before its first results a container is not ready, alive and not started. A missing probe
// counts as Success.
func resultsBeforeTheFirstProbe(t *testing.T, e engine) {
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
	d := startDaemonOn(t, e, specs.String())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := d.in(t)
			e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: map[string]string{"e2e": tt.name}})
			d.until(20*time.Second, tt.name, "running", func(s status) bool { return s.State.Running != nil })
			d.stays(time.Second, tt.name, "as before the first probe", func(s status) bool {
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
func firstProbeComesAtInitialDelay(t *testing.T, e engine) {
	d := startDaemonOn(t, e, `
[[spec]]
name = "onetime"
match = { e2e = "onetime" }
[spec.readiness]
tcp_socket = { port = 8080 }
initial_delay = "1500ms"
period = "1h"
`)
	e.Run(t, dockertest.RunOptions{Name: "onetime", Labels: map[string]string{"e2e": "onetime"}})
	s := d.until(20*time.Second, "onetime", "ready", ready)
	const delay, slack = 1500 * time.Millisecond, 5 * time.Second
	if after := s.Probes["readiness"].LastProbeTime.Sub(s.State.Running.StartedAt); after < delay || after > delay+slack {
		t.Errorf("the first probe came %v after the start, want %v", after, delay)
	}
}

// The first probes of containers that ran before healthd are spread over the period.
func firstProbesAfterStartAreSpread(t *testing.T, e engine) {
	const n, period = 6, 4 * time.Second
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("spread-%d", i))
		e.Run(t, dockertest.RunOptions{Name: names[i], Labels: map[string]string{"e2e": "spread"}})
	}
	d := startDaemonOn(t, e, `
[[spec]]
name = "spread"
match = { e2e = "spread" }
[spec.readiness]
tcp_socket = { port = 8080 }
period = "4s"
timeout = "3s"
`)
	for _, name := range names {
		d.until(period+20*time.Second, name, "ready", ready)
	}
	first, last := time.Time{}, time.Time{}
	for _, ev := range d.events("") {
		if ev.Reason != "Ready" || !slices.Contains(names, ev.Container) {
			continue
		}
		if first.IsZero() {
			first = ev.Time
		}
		last = ev.Time
	}
	if apart := last.Sub(first); apart < period/4 || apart > period+5*time.Second {
		t.Errorf("the first probes came within %v, want them spread over %v", apart, period)
	}
}

// Failures of one run do not count in the next one.
func newRunResetsCounts(t *testing.T, e engine) {
	const threshold = 10
	d := startDaemonOn(t, e, `
[[spec]]
name = "afresh"
match = { e2e = "afresh" }
[spec.liveness]
tcp_socket = { port = 8099 }
period = "400ms"
failure_threshold = 10
`)
	id := e.Run(t, dockertest.RunOptions{Name: "afresh", Labels: map[string]string{"e2e": "afresh"}})
	d.until(20*time.Second, "afresh", "on its way to a restart", func(s status) bool { return s.Probes["liveness"].Run >= 4 })
	e.RestartByOperator(t, id)
	d.eventually(20*time.Second, "restart it", func() error { return atLeast(1, d.countEvents("afresh", "Killing")) })
	var failures []int // of each run
	for _, reason := range d.reasons("afresh") {
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
func pausedKeepsItsCounts(t *testing.T, e engine) {
	d := startDaemonOn(t, e, `
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
	d.until(20*time.Second, "asleep", "ready, and failing", func(s status) bool { return s.Ready && s.Probes["liveness"].Run >= 5 })
	e.Pause(t, id)
	paused := d.until(20*time.Second, "asleep", "paused", func(s status) bool { return s.condition("Ready").Reason == "Paused" })
	d.stays(2*time.Second, "asleep", "paused, and not asked", func(s status) bool {
		return !s.Ready && s.Probes["liveness"].Run == paused.Probes["liveness"].Run && s.Probes["readiness"] == paused.Probes["readiness"]
	})
	e.Unpause(t, id)
	before := paused.Probes["liveness"].Run
	d.until(20*time.Second, "asleep", "ready and asked again", func(s status) bool {
		if s.Probes["liveness"].Run < before {
			t.Fatalf("%d failures in a row, there were %d before the pause", s.Probes["liveness"].Run, before)
		}
		return s.Ready && s.Probes["liveness"].Run > before
	})
	if s, _ := d.status("asleep"); s.RestartCount != 0 {
		t.Error("it was restarted")
	}
}
