package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
)

// answersByLetter are the results of probes: success, warning, failure, pending, not run.
var answersByLetter = map[rune]prober.Result{
	's': {Outcome: prober.Success},
	'w': {Outcome: prober.Success, Warning: true, Cause: prober.Redirect, Output: "probe output"},
	'f': {Outcome: prober.Failure, Cause: prober.ExitCode, Output: "probe output"},
	'p': {Outcome: prober.Unknown, Cause: prober.Pending, Output: "probe output"},
	'n': {Outcome: prober.Unknown, Cause: prober.NotAsked, Output: "probe output"},
}

// verdictOf returns the first letter of a probe's verdict, and how many times in a row its
// last outcome came: "S2". An h means that the probe is on hold: "F0h".
func verdictOf(sim *simulation, probe ProbeType) string {
	y := &sim.state.Health.Probes[probe]
	text := fmt.Sprintf("%c%d", y.Result.String()[0], y.Run)
	if y.OnHold {
		text += "h"
	}
	return text
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		probe   ProbeType
		timing  string
		answers string // one a second
		want    string
	}{
		{"readiness, one success and three failures", "129", Readiness, "0s/1s/1/3", "sssfffff sssfffff",
			"S1 S2 S3 S1 S2 F3 F4 F5 S1 S2 S3 S1 S2 F3 F4 F5"},
		{"readiness, three successes and one failure", "130", Readiness, "0s/1s/3/1", "sssssf sssssf",
			"F1 F2 S3 S4 S5 F1 F1 F2 S3 S4 S5 F1"},
		{"startup succeeds, on hold", "131", Startup, "0s/1s/1/3", "s", "S0h"},
		{"startup succeeds after two failures, on hold", "131", Startup, "0s/1s/1/3", "ffs", "U1 U2 S0h"},
		{"startup fails three times, on hold", "132 136", Startup, "0s/1s/1/3", "fff", "U1 U2 F0h"},
		{"liveness fails three times, on hold", "135", Liveness, "0s/1s/1/3", "sfff", "S1 S1 S2 F0h"},
		{"liveness fails twice and recovers", "135", Liveness, "0s/1s/1/3", "sff sff s", "S1 S1 S2 S1 S1 S2 S1"},
		{"startup, unknown comes between failures", "101 102", Startup, "0s/1s/1/3", "pnfpfnf", "U0 U0 U1 U1 U2 U2 F0h"},
		{"liveness, unknown comes between failures", "101 102", Liveness, "0s/1s/1/3", "pnfpfnf", "S0 S0 S1 S1 S2 S2 F0h"},
		{"readiness, unknown comes between failures", "101 102", Readiness, "0s/1s/1/3", "spnfpfnfpn", "S1 S1 S1 S1 S1 S2 S2 F3 F3 F3"},
		{"readiness, unknown comes between successes", "101 102", Readiness, "0s/1s/3/1", "fpnspsnspn", "F1 F1 F1 F1 F1 F2 F2 S3 S3 S3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulateProbe(t, tt.probe, tt.timing)
			var got []string
			for i, letter := range []rune(strings.ReplaceAll(tt.answers, " ", "")) {
				sim.answers[tt.probe] = answersByLetter[letter]
				if i == 0 {
					sim.play("0s runs")
				}
				sim.advanceTo(sim.start.Add(time.Duration(i) * time.Second))
				got = append(got, verdictOf(sim, tt.probe))
				if probeCount(sim, tt.probe) != i+1 {
					t.Fatalf("probed %d times after %d s", probeCount(sim, tt.probe), i)
				}
				if ready, _, _ := sim.view().Readiness(); tt.probe == Readiness && ready != strings.HasPrefix(got[i], "S") {
					t.Errorf("after %d s: %s, ready %v", i, got[i], ready)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// A result counts by its outcome alone.
func TestResultsByOutcome(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		letter  rune
		want    prober.Outcome
	}{
		{"failure", "98", 'f', prober.Failure},
		{"success", "99", 's', prober.Success},
		{"success with a warning", "100", 'w', prober.Success},
		{"not decided yet, does not count", "101", 'p', prober.Unknown},
		{"could not run, does not count", "102", 'n', prober.Unknown},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				sim := simulateProbe(t, probe, everySecond)
				sim.answers[probe] = answersByLetter[tt.letter]
				sim.play("0s runs")
				want := tt.want
				if want == prober.Unknown { // as before
					want = initialResults[probe]
				}
				y := sim.state.Health.Probes[probe]
				if y.Result != want || y.Outcome != tt.want || y.Last != answersByLetter[tt.letter] || sim.state.Totals.Outcomes[probe][tt.want] != 1 || probeCount(sim, probe) != 1 {
					t.Errorf("%+v, want %s", y, want)
				}
				if stops := sim.state.Action.Stopping != NoCause; stops != (tt.want == prober.Failure && probe != Readiness) {
					t.Errorf("is to be stopped: %v", stops)
				}
			})
		}
	}
}

func TestMissingProbe(t *testing.T) {
	for _, probe := range everyProbe {
		t.Run(probe.String(), func(t *testing.T) {
			t.Attr("kubelet", "96")
			sim := simulate(t, "startup="+everySecond, "liveness="+everySecond, "readiness="+everySecond, probe.String()+"=none", "0s runs")
			for _, at := range []string{"0s", "10s", "10s exits 1", "1m"} {
				sim.play(at)
				if y := sim.state.Health.Probes[probe]; y.Result != prober.Success || probeCount(sim, probe) != 0 {
					t.Errorf("%s: %+v", at, y)
				}
			}
			if !sim.state.Conditions.Ready.Status || !sim.state.Conditions.Started.Status {
				t.Errorf("not ready and started: %+v", sim.state)
			}
		})
	}
}

// probeEvents returns the events that are about probes, in order.
func probeEvents(sim *simulation) []string {
	var events []string
	for line := range strings.Lines(sim.transcript.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, EventUnhealthy+" ") || strings.HasPrefix(line, EventProbeWarning+" ") {
			events = append(events, line)
		}
	}
	return events
}

func TestProbeEvents(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers string // one a second
		want    []string
	}{
		{"a warning", "w", []string{`ProbeWarning "%s probe warning: probe output"`}},
		{"failures", "ff", []string{`Unhealthy "%s probe failed (1/3): probe output"`, `Unhealthy "%s probe failed (2/3): probe output"`}},
		{"not decided yet", "pp", nil},
		{"could not run, recorded once", "nn", []string{`Unhealthy "%s probe could not run, which does not count: probe output"`}},
		{"success", "s", nil},
	} {
		for _, probe := range everyProbe {
			t.Run(tt.name+", "+probe.String(), func(t *testing.T) {
				t.Attr("kubelet", "107")
				sim := simulateProbe(t, probe, "0s/1s/1/3")
				for i, letter := range tt.answers {
					sim.answers[probe] = answersByLetter[letter]
					if i == 0 {
						sim.play("0s runs")
					}
					sim.advanceTo(sim.start.Add(time.Duration(i) * time.Second))
				}
				var want []string
				for _, format := range tt.want {
					want = append(want, fmt.Sprintf(format, probe.Title()))
				}
				if got := probeEvents(sim); !slices.Equal(got, want) {
					t.Errorf("events %q, want %q", got, want)
				}
				if last := []rune(tt.answers)[len(tt.answers)-1]; sim.state.Health.Probes[probe].Last != answersByLetter[last] {
					t.Errorf("the status does not show the answer: %+v", sim.state.Health.Probes[probe].Last)
				}
			})
		}
	}
}

// A failure verdict stays until the next run.
func TestOnHoldUntilNextRun(t *testing.T) {
	for probe, next := range map[ProbeType]string{Liveness: "S1", Startup: "S0h"} {
		t.Run(probe.String()+" fails, on hold until the next run", func(t *testing.T) {
			t.Attr("kubelet", "134")
			name := probe.String()
			sim := simulateProbe(t, probe, everySecond, "drain=10s", "0s "+name+" fails", "0s runs")
			run := sim.state.Run.ID
			if got := verdictOf(sim, probe); got != "F0h" {
				t.Fatalf("after the failure: %s, want F0h", got)
			}
			sim.play("1s "+name+" succeeds", "5s")
			sim.step("an unexpected success", &Input{Kind: ProbeAnswered, Probe: probe, Result: answersByLetter['s']})
			sim.play("9500ms")
			if got := verdictOf(sim, probe); got != "F0h" || probeCount(sim, probe) != 1 || sim.state.Run.ID != run {
				t.Errorf("while on hold: %s, probed %d times", got, probeCount(sim, probe))
			}
			sim.play("10001ms")
			if got := verdictOf(sim, probe); got != next || probeCount(sim, probe) != 2 || sim.state.Run.ID == run {
				t.Errorf("in the next run: %s, want %s; probed %d times\n%s", got, next, probeCount(sim, probe), sim.transcript.String())
			}
			sim.step("an unexpected failure", &Input{Kind: ProbeAnswered, Probe: probe, Result: answersByLetter['f']})
			if got := verdictOf(sim, probe); got != next {
				t.Errorf("a late answer counted: %s, want %s", got, next)
			}
		})
	}
}

// Results of a run do not count for the next run.
func TestCountsBeginAfreshWithRun(t *testing.T) {
	for _, tt := range []struct {
		kubelet string
		probe   ProbeType
		timing  string
		answer  string
		before  string
		after   string
	}{
		{"135", Liveness, "0s/1s/1/3", "fails", "S2", "S1"},
		{"136", Startup, "0s/1s/1/3", "fails", "U2", "U1"},
		{"130", Readiness, "0s/1s/3/1", "succeeds", "F2", "F1"},
	} {
		t.Run(tt.probe.String()+" "+tt.answer+" twice, then once more", func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulateProbe(t, tt.probe, tt.timing, "0s "+tt.probe.String()+" "+tt.answer, "0s runs", "1500ms")
			if got := verdictOf(sim, tt.probe); got != tt.before {
				t.Errorf("before the end: %s, want %s", got, tt.before)
			}
			sim.play("1500ms exits 1", "1600ms")
			if got := verdictOf(sim, tt.probe); got != tt.after || probeCount(sim, tt.probe) != 3 {
				t.Errorf("in the next run: %s, want %s", got, tt.after)
			}
		})
	}
}

func TestLivenessWaitsForStarted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
	}{
		{"of the startup probe", []string{"startup=0s/1s/1/60", "0s startup fails", "0s runs", "20s startup succeeds"}},
		{"of the post_start hook", []string{"post-start=20s", "0s runs"}},
	} {
		t.Run("the end "+tt.name, func(t *testing.T) {
			t.Attr("kubelet", "139")
			sim := simulateProbe(t, Liveness, everySecond, append([]string{"drain=1h", "0s liveness fails"}, tt.lines...)...)
			sim.advanceTo(sim.start.Add(20*time.Second - 1))
			if got := verdictOf(sim, Liveness); sim.state.Conditions.Started.Status || got != "S0" || probeCount(sim, Liveness) != 0 || sim.state.Action.Stopping != NoCause {
				t.Errorf("not started: %s, %+v", got, sim.state)
			}
			sim.play("21s")
			if got := verdictOf(sim, Liveness); !sim.state.Conditions.Started.Status || got != "F0h" || sim.state.Action.Stopping != ByLiveness {
				t.Errorf("started: %s, %+v", got, sim.state)
			}
		})
	}
}

func TestNoStartupProbeOnceStarted(t *testing.T) {
	t.Attr("kubelet", "140")
	sim := simulateProbe(t, Startup, "0s/1s/1/2", "0s startup fails", "0s runs")
	if got := verdictOf(sim, Startup); got != "U1" {
		t.Errorf("after one failure: %s, want U1", got)
	}
	sim.play("500ms startup succeeds", "1s")
	if got := verdictOf(sim, Startup); got != "S0h" || !sim.state.Conditions.Started.Status {
		t.Errorf("after a success: %s, want S0h", got)
	}
	sim.play("1500ms startup fails", "1m")
	if got := verdictOf(sim, Startup); got != "S0h" || probeCount(sim, Startup) != 2 || !sim.state.Conditions.Started.Status || len(sim.actions()) != 0 {
		t.Errorf("once it has started: %s, probed %d times", got, probeCount(sim, Startup))
	}
}
