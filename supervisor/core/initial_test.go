package core

import (
	"fmt"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// What a run's probes have said when it is first seen: nothing, unless an earlier
// daemon knew this very run.
func TestResultsAtFirstSight(t *testing.T) {
	each := func(kubelet string) [NumProbes]string { return [NumProbes]string{kubelet, kubelet, kubelet} }
	unremembered := [NumProbes]string{Readiness: "141", Liveness: "142", Startup: "143"}
	started, both := initial, initial
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
		{"found, nothing is remembered", unremembered, true, nil, Facts{}, initial},
		{"found, another run is remembered", unremembered, true, other, Facts{Kept: Kept{Conditions: Conditions{Started: Condition{Status: true}, ContainerReady: Condition{Status: true}, Ready: Condition{Status: true}}}, ReadinessSucceeded: true}, initial},
		{"began before our eyes", each("144 146"), false, nil, Facts{}, initial},
		{"began before our eyes, another run is remembered", each("144 146"), false, other, Facts{Kept: Kept{Conditions: Conditions{Started: Condition{Status: true}, ContainerReady: Condition{Status: true}, Ready: Condition{Status: true}}}, ReadinessSucceeded: true}, initial},
		{"found, remembered as started and ready", each("145"), true, this, Facts{Kept: Kept{Conditions: Conditions{Started: Condition{Status: true}, ContainerReady: Condition{Status: true}, Ready: Condition{Status: true}}}, ReadinessSucceeded: true}, both},
		{"found, remembered as neither", each("145"), true, this, Facts{}, initial},
		{"found, remembered as started", each("147"), true, this, Facts{Kept: Kept{Conditions: Conditions{Started: Condition{Status: true}}}}, started},
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

// What is remembered holds until the probe gives a verdict, and no longer.
func TestRememberedUntilAVerdict(t *testing.T) {
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
			for i, want := range []bool{tt.ready, tt.ready, !tt.ready} { // asked 0, 1 and 2 times
				if n := probeCount(sim, Readiness); n != i || sim.state.Conditions.Ready.Status != want {
					t.Errorf("asked %d times, ready %v, want %v", n, sim.state.Conditions.Ready.Status, want)
				}
				sim.advanceTo(sim.start.Add(time.Duration(i+1) * 10 * time.Second))
			}
			if n := probeCount(sim, Startup); n != 0 || !sim.state.Conditions.Started.Status || len(sim.actions()) != 0 {
				t.Errorf("startup was asked %d times; %+v", n, sim.state)
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
			if probe == Startup { // it is done with
				want = 1
			}
			if n := probeCount(sim, probe); n != want || sim.state.Health.Probes[probe].Result != prober.Success {
				t.Errorf("asked %d times, want %d; %+v", n, want, sim.state.Health.Probes[probe])
			}
			sim.play("10s exits 1", "10500ms")
			if n := probeCount(sim, probe); n <= want {
				t.Errorf("not asked in the next run:\n%s", sim.transcript.String())
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
				t.Errorf("not asked at once: %+v", y)
			}
		})
		t.Run("over when the run was found, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "115")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s found 11s", "1s")
			if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) != 1 || y.Result != prober.Success {
				t.Errorf("not asked within a period: %+v", y)
			}
		})
		t.Run("not over, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "127")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s runs")
			for _, at := range []string{"0s", "1s", "9999ms"} {
				sim.play(at)
				if y := sim.state.Health.Probes[probe]; probeCount(sim, probe) != 0 || y.Result != initial[probe] || !y.LastAt.IsZero() {
					t.Errorf("%s: %+v, want %s", at, y, initial[probe])
				}
			}
		})
		t.Run("not over, then over, "+probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "128")
			sim := simulateProbe(t, probe, "10s/1s/1/1", "0s runs", "9999ms")
			asked := probeCount(sim, probe)
			sim.play("10s")
			if y := sim.state.Health.Probes[probe]; asked != 0 || probeCount(sim, probe) != 1 || y.Result != prober.Success {
				t.Errorf("when the delay is over: %+v", y)
			}
			sim.play("100s")
			if y := sim.state.Health.Probes[probe]; y.Result != prober.Success || (probeCount(sim, probe) == 91) == (probe == Startup) {
				t.Errorf("after 100 s: %+v", y)
			}
		})
	}
}
