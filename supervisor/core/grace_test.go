package core

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The grace period of a stop by its cause, from grace and in the stop call.
func TestGrace(t *testing.T) {
	const none = -1 * time.Second
	for _, tt := range []struct {
		name      string
		kubelet   string
		spec      time.Duration // 0: not set, as in the probes
		liveness  time.Duration
		startup   time.Duration
		container time.Duration // its own stop timeout
		cause     Cause
		want      time.Duration
	}{
		{"nothing configured", "228", 0, 0, 0, none, ByOperator, DefaultGrace},
		{"the container's own is 0", "228", 0, 0, 0, 0, ByOperator, MinGrace},
		{"less than the minimum", "228", time.Second, 0, 0, none, ByOperator, MinGrace},
		{"the container's own", "228", 0, 0, 0, 7 * time.Second, ByOperator, 7 * time.Second},
		{"the spec's", "229", time.Minute, 0, 0, none, ByOperator, time.Minute},
		{"the spec's before the container's own", "229", time.Minute, 0, 0, 7 * time.Second, ByOperator, time.Minute},
		{"liveness failed, its probe's is shorter", "230", time.Minute, 10 * time.Second, 0, none, ByLiveness, 10 * time.Second},
		{"startup failed, its probe's is shorter", "231", time.Minute, 0, 10 * time.Second, none, ByStartup, 10 * time.Second},
		{"startup failed, its probe's is longer", "232", 10 * time.Second, 0, time.Minute, none, ByStartup, time.Minute},
		{"liveness failed, its probe's is longer", "233", 10 * time.Second, time.Minute, 0, none, ByLiveness, time.Minute},
		{"another cause, liveness has one", "234", time.Minute, 10 * time.Second, 0, none, ByOperator, time.Minute},
		{"another cause, startup has one", "235", time.Minute, 0, 10 * time.Second, none, ByOperator, time.Minute},
		{"all three, another cause", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByOperator, time.Minute},
		{"all three, startup failed", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByStartup, 10 * time.Second},
		{"all three, liveness failed", "236", time.Minute, 30 * time.Second, 10 * time.Second, none, ByLiveness, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulate(t, "startup=0s/1s/1/1", "liveness=0s/1s/1/1")
			sim.spec.TerminationGracePeriod, sim.c.StopTimeout = tt.spec, tt.container
			sim.spec.Probes[Startup].TerminationGracePeriod = tt.startup
			sim.spec.Probes[Liveness].TerminationGracePeriod = tt.liveness
			if got := grace(sim.spec, &sim.c, tt.cause); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			causeStop(sim, tt.cause)
			if got, want := sim.actions(), fmt.Sprintf("STOP grace %v", tt.want); len(got) == 0 || got[0] != want {
				t.Errorf("actions %q, want %q\n%s", got, want, sim.transcript.String())
			}
		})
	}
}

// causeStop makes healthd stop a run for that cause.
func causeStop(sim *simulation, cause Cause) {
	sim.t.Helper()
	lines := map[Cause][]string{
		ByStartup:   {"0s startup fails", "0s runs"},
		ByLiveness:  {"0s liveness fails", "0s runs"},
		ByPostStart: {"post-start=100ms", "0s post-start fails", "0s runs"},
		ByOperator:  {"0s runs", "500ms restart-asked"},
	}
	sim.play(append(lines[cause], "600ms")...)
}

// pre_stop runs before every stop by healthd, within its grace period. A container without a
// grace period is stopped without it.
func TestPreStopBeforeStop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		lines   []string
		cause   Cause
		want    []string
	}{
		{"restart requested", "238", []string{"grace=30s"}, ByOperator, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"liveness failed", "238", []string{"grace=30s"}, ByLiveness, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"startup failed", "238", []string{"grace=30s"}, ByStartup, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"post_start failed", "238", []string{"grace=30s"}, ByPostStart, []string{"PostStart HOOK within 5m1s", "PreStop HOOK within 30s", "STOP grace 30s"}},
		{"pre_stop fails", "238", []string{"grace=30s", "0s pre-stop fails"}, ByOperator, []string{"PreStop HOOK within 30s", "STOP grace 30s"}},
		{"no grace", "240", []string{"container-grace=0s"}, ByOperator, []string{"STOP grace 2s"}},
		{"no grace, liveness failed", "240", []string{"container-grace=0s"}, ByLiveness, []string{"STOP grace 2s"}},
		{"no grace of the container's own, but the spec's", "240", []string{"container-grace=0s", "grace=5s"}, ByOperator, []string{"PreStop HOOK within 5s", "STOP grace 5s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulate(t, append([]string{"startup=0s/1h/1/1", "liveness=0s/1h/1/1", "pre-stop=0s", "stop-takes=1s"}, tt.lines...)...)
			causeStop(sim, tt.cause)
			if got := sim.actions(); !slices.Equal(got, tt.want) {
				t.Errorf("actions %q, want %q\n%s", got, tt.want, sim.transcript.String())
			}
		})
	}
}
