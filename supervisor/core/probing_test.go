package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"healthd/prober"
	"healthd/runtime"
)

// everySecond is the timing of a probe whose thresholds are 1.
const everySecond = "0s/1s/1/1"

// initialResults are the verdicts before any probe has run.
var initialResults = [NumProbes]prober.Outcome{Startup: prober.Unknown, Liveness: prober.Success, Readiness: prober.Failure}

var everyProbe = []ProbeType{Startup, Liveness, Readiness}

// simulateProbe is simulate with one probe.
func simulateProbe(t *testing.T, probe ProbeType, timing string, lines ...string) *simulation {
	t.Helper()
	return simulate(t, append([]string{probe.String() + "=" + timing}, lines...)...)
}

// probeCount returns how often a probe has run, over all runs of the container.
func probeCount(sim *simulation, probe ProbeType) int {
	n := 0
	for _, k := range sim.state.Totals.Outcomes[probe] {
		n += int(k)
	}
	return n
}

// probedAgain lets more time pass than any back-off takes, and says whether the probe ran
// meanwhile.
func probedAgain(sim *simulation, probe ProbeType) bool {
	before := probeCount(sim, probe)
	sim.advanceTo(sim.now.Add(10 * time.Minute))
	return probeCount(sim, probe) > before
}

// healthd probes a container only when it runs.
func TestProbesWaitForRun(t *testing.T) {
	see := func(sim *simulation) { sim.step("seen", &Input{Kind: Observed}) }
	for _, tt := range []struct {
		name    string
		kubelet string
		before  func(*simulation)
		want    prober.Outcome
		then    string
	}{
		{"not observed yet", "108", func(sim *simulation) { sim.step("", &Input{Kind: Tick}) }, prober.Unknown, "1m runs"},
		{"created, not started", "112", see, prober.Failure, "1m runs"},
		{"in back-off", "112", func(sim *simulation) { sim.play("0s runs", "1s exits 1", "2s exits 1") }, prober.Failure, "1m"},
		{"the engine will restart it", "112", func(sim *simulation) {
			sim.c.RestartPolicy = "always"
			sim.play("0s runs", "1s")
			sim.endRun(1)
			sim.c.State = runtime.Restarting
			see(sim)
		}, prober.Failure, "1m runs"},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				sim := simulateProbe(t, probe, everySecond)
				tt.before(sim)
				count := probeCount(sim, probe)
				sim.advanceTo(sim.now.Add(5 * time.Second))
				y := sim.state.Health.Probes[probe]
				if y.Result != tt.want || !y.LastAt.IsZero() && tt.want == prober.Unknown || !y.Due.IsZero() || probeCount(sim, probe) != count {
					t.Errorf("before it runs: %+v, want %s", y, tt.want)
				}
				sim.play(tt.then)
				if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) == count || y.Result != prober.Success {
					t.Errorf("when it runs: %+v\n%s", y, sim.transcript.String())
				}
			})
		}
	}
}

// A container that healthd finds stopped is not probed, and its verdicts stay the initial
// ones.
func TestNoProbesWhenFoundStopped(t *testing.T) {
	for code, phase := range map[int]Phase{0: PhaseSucceeded, 1: PhaseFailed} {
		for _, policy := range policies {
			for _, probe := range everyProbe {
				t.Run(fmt.Sprintf("%s under %s, %s", phase, policy, probe), func(t *testing.T) {
					t.Attr("kubelet", "109")
					sim := simulateProbe(t, probe, everySecond, "policy="+string(policy))
					sim.startRun()
					sim.c.StartedAt = sim.now.Add(-time.Minute)
					sim.endRun(code)
					sim.step("found", &Input{Kind: Observed, Unwatched: true})
					again := probedAgain(sim, probe)
					v, y := sim.view(), sim.state.Health.Probes[probe]
					if v.Phase() != phase || y.Result != initialResults[probe] || !y.LastAt.IsZero() || y.Outcome != prober.Unknown {
						t.Errorf("phase %s, %+v", v.Phase(), y)
					}
					if again || !NextTick(&sim.state).IsZero() {
						t.Errorf("probing goes on:\n%s", sim.transcript.String())
					}
				})
			}
		}
	}
}

// While an operator stops the container, liveness and startup are Success and do not run.
// Readiness runs to the end.
func TestProbesDuringOperatorStop(t *testing.T) {
	const slow = "0s/1s/1/30" // 30 failures make a verdict
	for _, tt := range []struct {
		name   string
		probe  ProbeType
		timing string
		before []string
		after  string
		want   prober.Outcome
	}{
		{"startup, no answer yet", Startup, everySecond, []string{"0s startup unknown"}, "fails", prober.Success},
		{"startup, failing", Startup, slow, []string{"0s startup fails"}, "fails", prober.Success},
		{"startup, failed", Startup, everySecond, []string{"drain=1h", "0s startup fails"}, "fails", prober.Success},
		{"startup, succeeded", Startup, everySecond, nil, "fails", prober.Success},
		{"liveness, failing", Liveness, slow, []string{"0s liveness fails"}, "fails", prober.Success},
		{"liveness, failed", Liveness, everySecond, []string{"drain=1h", "0s liveness fails"}, "fails", prober.Success},
		{"liveness, failed and left to run", Liveness, everySecond, []string{"rm=yes", "0s liveness fails"}, "fails", prober.Success},
		{"liveness, succeeding", Liveness, everySecond, nil, "fails", prober.Success},
		{"readiness, succeeding", Readiness, everySecond, nil, "succeeds", prober.Success},
		{"readiness, failing, then not", Readiness, everySecond, []string{"0s readiness fails"}, "succeeds", prober.Success},
		{"readiness, failing", Readiness, everySecond, []string{"0s readiness fails"}, "fails", prober.Failure},
		{"readiness, begins to fail", Readiness, everySecond, nil, "fails", prober.Failure},
	} {
		for _, signal := range []string{"15", "9"} {
			t.Run(tt.name+", signal "+signal, func(t *testing.T) {
				t.Attr("kubelet", "110")
				sim := simulateProbe(t, tt.probe, tt.timing, append(tt.before, "0s runs", "3500ms")...)
				started, atOnce := sim.state.Conditions.Started.Status, tt.want
				if tt.probe == Readiness {
					atOnce = sim.state.Health.Probes[Readiness].Result
				}
				sim.play("3500ms signalled "+signal, "3500ms "+tt.probe.String()+" "+tt.after)
				count := probeCount(sim, tt.probe)
				for i, want := range []prober.Outcome{atOnce, tt.want, tt.want} {
					sim.play([]string{"3500ms", "4500ms", "20s"}[i])
					if got := sim.state.Health.Probes[tt.probe].Result; got != want {
						t.Errorf("check %d: %s, want %s\n%s", i, got, want, sim.transcript.String())
					}
				}
				if got := probeCount(sim, tt.probe) > count; got != (tt.probe == Readiness) || sim.state.Conditions.Ready.Status || sim.state.Conditions.Started.Status != started {
					t.Errorf("probed on: %v; %+v", got, sim.state)
				}
				if acts := sim.actions(); len(acts) != 0 {
					t.Errorf("actions %q", acts)
				}
			})
		}
	}
}

// After the end of a run every verdict is Failure. Probes run again only if the restart
// policy starts the container again.
func TestProbesAfterEnd(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		lines   []string
		again   bool
	}{
		{"OnFailure, exit 1", "116", []string{"policy=OnFailure", "10s exits 1"}, true},
		{"OnFailure, exit 0", "117", []string{"policy=OnFailure", "10s exits 0"}, false},
		{"Always, exit 1", "118 137", []string{"policy=Always", "10s exits 1"}, true},
		{"Always, exit 0", "119 137", []string{"policy=Always", "10s exits 0"}, true},
		{"Never, exit 1", "113 120 138", []string{"policy=Never", "10s exits 1"}, false},
		{"Never, exit 0", "113 121 138", []string{"policy=Never", "10s exits 0"}, false},
		{"Never with a rule for 1, exit 1", "122", []string{"policy=Never", "restart-on=1", "10s exits 1"}, true},
		{"Never with a rule for 99, exit 1", "123", []string{"policy=Never", "restart-on=99", "10s exits 1"}, false},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				lines := append([]string{"0s runs"}, tt.lines...)
				sim := simulateProbe(t, probe, everySecond, lines...)
				y := sim.state.Health.Probes[probe]
				if probeCount(sim, probe) == 0 || y.Result != prober.Failure || !y.Due.IsZero() {
					t.Errorf("at the end of the run: %+v", y)
				}
				due := sim.state.Action.Restart != NoCause
				if again := probedAgain(sim, probe); again != tt.again || due != tt.again {
					t.Errorf("a start is due: %v, probed again: %v, want %v\n%s", due, again, tt.again, sim.transcript.String())
				}
				want := prober.Failure
				if tt.again {
					want = prober.Success
				}
				if y := sim.state.Health.Probes[probe]; y.Result != want || y.Due.IsZero() != (!tt.again || probe == Startup) {
					t.Errorf("long after: %+v", y)
				}
			})
		}
	}
}

// Nearly all probes succeed: a page that each of them gets must not stay in memory. What a failed one said is kept
// whole.
func TestKeptOutputOfSuccesses(t *testing.T) {
	page := strings.Repeat("é", prober.MaxOutput/2)
	p := &ProbeSpec{SuccessThreshold: 1, FailureThreshold: 1}
	for _, tt := range []struct {
		outcome prober.Outcome
		output  string
		want    int // bytes; -1: all of it
	}{
		{prober.Success, page, maxSuccess - 1}, // no half character
		{prober.Success, page[:maxSuccess], -1},
		{prober.Failure, page, -1},
		{prober.Unknown, page, -1},
	} {
		var y ProbeState
		y.add(p, prober.Result{Outcome: tt.outcome, Output: tt.output}, time.Now())
		got := y.Last.Output
		if tt.want < 0 && got != tt.output || tt.want >= 0 && (len(got) != tt.want || !utf8.ValidString(got) || !strings.HasSuffix(got, "…")) {
			t.Errorf("%v: of %d bytes %d are kept: %.300q", tt.outcome, len(tt.output), len(got), got)
		}
	}
}
