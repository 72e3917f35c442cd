package core

import (
	"fmt"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// everySecond is the timing of a probe of which one answer is a verdict.
const everySecond = "0s/1s/1/1"

// initial are the results before any probe was answered.
var initial = [NumProbes]prober.Outcome{Startup: prober.Unknown, Liveness: prober.Success, Readiness: prober.Failure}

var everyProbe = []ProbeType{Startup, Liveness, Readiness}

// probed is a world whose container has one probe, in which these lines have come
// true.
func probed(t *testing.T, probe ProbeType, timing string, lines ...string) *world {
	t.Helper()
	return tale(t, append([]string{probe.String() + "=" + timing}, lines...)...)
}

// askedSoFar returns how often a probe was asked, over all runs.
func askedSoFar(w *world, probe ProbeType) int {
	n := uint64(0)
	for _, k := range w.state.Totals.Outcomes[probe] {
		n += k
	}
	return int(n)
}

// askedAgain lets more time go by than any back-off takes, and says whether the probe
// was asked in it.
func askedAgain(w *world, probe ProbeType) bool {
	before := askedSoFar(w, probe)
	w.goTo(w.now.Add(10 * time.Minute))
	return askedSoFar(w, probe) > before
}

// What does not run is not asked, and is when it runs.
func TestProbesWaitForARun(t *testing.T) {
	see := func(w *world) { w.step("seen", &Input{Kind: Observed}) }
	for _, tt := range []struct {
		name    string
		kubelet string
		before  func(*world)
		want    prober.Outcome
		then    string
	}{
		{"nothing is known of it", "108", func(w *world) { w.step("", &Input{Kind: Tick}) }, prober.Unknown, "1m runs"},
		{"made, not started", "112", see, prober.Failure, "1m runs"},
		{"its back-off is not over", "112", func(w *world) { w.goesOn("0s runs", "1s exits 1", "2s exits 1") }, prober.Failure, "1m"},
		{"the engine is to restart it", "112", func(w *world) {
			w.c.RestartPolicy = "always"
			w.goesOn("0s runs", "1s")
			w.endRun(1)
			w.c.State = runtime.Restarting
			see(w)
		}, prober.Failure, "1m runs"},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				w := probed(t, probe, everySecond)
				tt.before(w)
				asked := askedSoFar(w, probe)
				w.goTo(w.now.Add(5 * time.Second))
				y := w.state.Health.Probes[probe]
				if y.Result != tt.want || !y.LastAt.IsZero() && tt.want == prober.Unknown || !y.Due.IsZero() || askedSoFar(w, probe) != asked {
					t.Errorf("before it runs: %+v, want %s", y, tt.want)
				}
				w.goesOn(tt.then)
				if y := w.state.Health.Probes[probe]; askedSoFar(w, probe) == asked || y.Result != prober.Success {
					t.Errorf("when it runs: %+v\n%s", y, w.told.String())
				}
			})
		}
	}
}

// What ended while nobody watched is not asked, and no result is made up for it.
func TestProbesOfWhatWasFoundEnded(t *testing.T) {
	for code, phase := range map[int]Phase{0: PhaseSucceeded, 1: PhaseFailed} {
		for _, policy := range policies {
			for _, probe := range everyProbe {
				t.Run(fmt.Sprintf("%s under %s, %s", phase, policy, probe), func(t *testing.T) {
					t.Attr("kubelet", "109")
					w := probed(t, probe, everySecond, "policy="+string(policy))
					w.startRun()
					w.c.StartedAt = w.now.Add(-time.Minute)
					w.endRun(code)
					w.step("found", &Input{Kind: Observed, Unwatched: true})
					again := askedAgain(w, probe)
					v, y := w.view(), w.state.Health.Probes[probe]
					if v.Phase() != phase || y.Result != initial[probe] || !y.LastAt.IsZero() || y.Outcome != prober.Unknown {
						t.Errorf("phase %s, %+v", v.Phase(), y)
					}
					if again || !NextTick(&w.state).IsZero() {
						t.Errorf("probing goes on:\n%s", w.told.String())
					}
				})
			}
		}
	}
}

// Somebody stops the container: liveness and startup no longer matter, whatever they
// said; readiness is asked to the end.
func TestProbesOfWhatSomebodyStops(t *testing.T) {
	const slow = "0s/1s/1/30" // to fail
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
				w := probed(t, tt.probe, tt.timing, append(tt.before, "0s runs", "3500ms")...)
				started, atOnce := w.state.Conditions.Started.Status, tt.want
				if tt.probe == Readiness {
					atOnce = w.state.Health.Probes[Readiness].Result
				}
				w.goesOn("3500ms signalled "+signal, "3500ms "+tt.probe.String()+" "+tt.after)
				asked := askedSoFar(w, tt.probe)
				for i, want := range []prober.Outcome{atOnce, tt.want, tt.want} {
					w.goesOn([]string{"3500ms", "4500ms", "20s"}[i])
					if got := w.state.Health.Probes[tt.probe].Result; got != want {
						t.Errorf("look %d: %s, want %s\n%s", i, got, want, w.told.String())
					}
				}
				if got := askedSoFar(w, tt.probe) > asked; got != (tt.probe == Readiness) || w.state.Conditions.Ready.Status || w.state.Conditions.Started.Status != started {
					t.Errorf("asked on: %v; %+v", got, w.state)
				}
				if acts := w.acts(); len(acts) != 0 {
					t.Errorf("did %q", acts)
				}
			})
		}
	}
}

// Whether a probe has a future when the run has ended is for the policy to say. Its
// result is a failure in any case.
func TestProbesOfWhatHasEnded(t *testing.T) {
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
				w := probed(t, probe, everySecond, lines...)
				y := w.state.Health.Probes[probe]
				if askedSoFar(w, probe) == 0 || y.Result != prober.Failure || !y.Due.IsZero() {
					t.Errorf("at the end of the run: %+v", y)
				}
				due := w.state.Action.Restart != NoCause
				if again := askedAgain(w, probe); again != tt.again || due != tt.again {
					t.Errorf("a start is due: %v, asked again: %v, want %v\n%s", due, again, tt.again, w.told.String())
				}
				want := prober.Failure
				if tt.again {
					want = prober.Success
				}
				if y := w.state.Health.Probes[probe]; y.Result != want || y.Due.IsZero() != (!tt.again || probe == Startup) {
					t.Errorf("long after: %+v", y)
				}
			})
		}
	}
}
