package core

import (
	"fmt"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// The verdicts at the first observation of a run are the initial ones, unless the last
// daemon knew this run.
func TestInitialResults(t *testing.T) {
	each := func(kubelet string) [NumProbes]string { return [NumProbes]string{kubelet, kubelet, kubelet} }
	unremembered := [NumProbes]string{Readiness: "141", Liveness: "142", Startup: "143"}
	started, both := initialResults, initialResults
	started[Startup] = prober.Success
	both[Startup], both[Readiness] = prober.Success, prober.Success
	this := func(sim *simulation) runtime.Run { return sim.c.Run() }
	other := func(sim *simulation) runtime.Run {
		return runtime.Run{ID: sim.c.ID, Started: sim.c.StartedAt.UnixNano() - 1}
	}
	for _, tt := range []struct {
		name    string
		kubelet [NumProbes]string
		found   bool // it began before the daemon
		run     func(*simulation) runtime.Run
		last    Facts
		want    [NumProbes]prober.Outcome
	}{
		{"found, no run is remembered", unremembered, true, nil, Facts{}, initialResults},
		{"found, another run is remembered", unremembered, true, other, rememberedFacts(true, true), initialResults},
		{"begins while healthd watches", each("144 146"), false, nil, Facts{}, initialResults},
		{"begins while healthd watches, another run is remembered", each("144 146"), false, other, rememberedFacts(true, true), initialResults},
		{"found, remembered as started and ready", each("145"), true, this, rememberedFacts(true, true), both},
		{"found, remembered as neither", each("145"), true, this, rememberedFacts(false, false), initialResults},
		{"found, remembered as started", each("147"), true, this, rememberedFacts(true, false), started},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet[probe])
				sim := simulate(t, "startup=1h/1s/1/1", "liveness=1h/1s/1/1", "readiness=1h/1s/1/1")
				sim.startRun()
				if tt.found {
					sim.c.StartedAt = sim.now.Add(-5 * time.Minute)
				}
				last := tt.last
				if tt.run != nil {
					last.Run.ID = tt.run(sim)
				}
				switch {
				case tt.run != nil:
					sim.findRun("seen", last)
				default:
					sim.step("seen", &Input{Kind: Observed, First: tt.found, Unwatched: tt.found})
				}
				sim.play("1m")
				y := sim.state.Health.Probes[probe]
				if y.Result != tt.want[probe] || !y.LastAt.IsZero() || y.Run != 0 {
					t.Errorf("%+v, want %s", y, tt.want[probe])
				}
				begun, _ := sim.view().Started()
				ready, _, _ := sim.view().Readiness()
				if begun != (tt.want[Startup] == prober.Success) || ready != (begun && tt.want[Readiness] == prober.Success) {
					t.Errorf("started %v, ready %v", begun, ready)
				}
				if armed := !y.Due.IsZero(); armed != (begun != (probe == Startup)) {
					t.Errorf("armed: %v in a run that is started: %v", armed, begun)
				}
			})
		}
	}
}

// A remembered verdict stays until the probe's first verdict.
func TestRememberedUntilFirstVerdict(t *testing.T) {
	for _, tt := range []struct {
		remembered string
		answers    string
		ready      bool // at first
	}{
		{"started ready", "fails", true},
		{"started", "succeeds", false},
	} {
		t.Run(fmt.Sprintf("%s, readiness %s", tt.remembered, tt.answers), func(t *testing.T) {
			t.Attr("kubelet", "145")
			sim := simulate(t, "startup=0s/10s/1/1", "liveness=0s/10s/1/2", "readiness=0s/10s/2/2",
				"0s startup fails", "0s readiness "+tt.answers, "0s remembered "+tt.remembered, "0s found 5m")
			for i, want := range []bool{tt.ready, tt.ready, !tt.ready} { // after 0, 1 and 2 probes
				if n := probeCount(sim, Readiness); n != i || sim.state.Conditions.Ready.Status != want {
					t.Errorf("probed %d times, ready %v, want %v", n, sim.state.Conditions.Ready.Status, want)
				}
				sim.advanceTo(sim.start.Add(time.Duration(i+1) * 10 * time.Second))
			}
			if n := probeCount(sim, Startup); n != 0 || !sim.state.Conditions.Started.Status || len(sim.actions()) != 0 {
				t.Errorf("startup ran %d times; %+v", n, sim.state)
			}
		})
	}
}

func TestProbeSucceeds(t *testing.T) {
	for _, probe := range everyProbe {
		t.Run(probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "114")
			sim := simulateProbe(t, probe, everySecond, "0s runs")
			if y := sim.state.Health.Probes[probe]; y.Result != prober.Success || y.Last.Outcome != prober.Success || probeCount(sim, probe) != 1 {
				t.Fatalf("after the first success: %+v", y)
			}
			sim.play("9500ms")
			want := 10
			if probe == Startup { // one success is its verdict
				want = 1
			}
			if n := probeCount(sim, probe); n != want || sim.state.Health.Probes[probe].Result != prober.Success {
				t.Errorf("probed %d times, want %d; %+v", n, want, sim.state.Health.Probes[probe])
			}
			sim.play("10s exits 1", "10500ms")
			if n := probeCount(sim, probe); n <= want {
				t.Errorf("not probed in the next run:\n%s", sim.transcript.String())
			}
		})
	}
}

func TestInitialDelay(t *testing.T) {
	for _, probe := range everyProbe {
		t.Run("below zero, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "115")
			sim := simulateProbe(t, probe, "-100s/1s/1/1", "0s runs")
			if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) != 1 || y.Result != prober.Success {
				t.Errorf("not probed at once: %+v", y)
			}
		})
		t.Run("over when the run was found, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "115")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s found 11s", "1s")
			if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) != 1 || y.Result != prober.Success {
				t.Errorf("not probed within a period: %+v", y)
			}
		})
		t.Run("not over, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "127")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s runs")
			for _, at := range []string{"0s", "1s", "9999ms"} {
				sim.play(at)
				if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) != 0 || y.Result != initialResults[probe] || !y.LastAt.IsZero() {
					t.Errorf("%s: %+v, want %s", at, y, initialResults[probe])
				}
			}
		})
		t.Run("not over, then over, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "128")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s runs", "9999ms")
			count := probeCount(sim, probe)
			sim.play("10s")
			if y := sim.state.Health.Probes[probe]; count != 0 || probeCount(sim, probe) != 1 || y.Result != prober.Success {
				t.Errorf("when the delay is over: %+v", y)
			}
			sim.play("100s")
			if y := sim.state.Health.Probes[probe]; y.Result != prober.Success || (probeCount(sim, probe) == 91) == (probe == Startup) {
				t.Errorf("after 100 s: %+v", y)
			}
		})
	}
}
