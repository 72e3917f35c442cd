package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
)

const day = 24 * time.Hour

// certificateEvents returns what a simulation has recorded of certificates.
func certificateEvents(sim *simulation) []string {
	var events []string
	for line := range strings.Lines(sim.transcript.String()) {
		if _, text, ok := strings.Cut(line, EventProbeWarning+" "); ok && strings.Contains(text, "certificate") {
			events = append(events, strings.Trim(text, "\"\n"))
		}
	}
	return events
}

func TestCertificateThatEnds(t *testing.T) {
	const probe = "Readiness probe warning: the server's certificate "
	for _, tt := range []struct {
		name   string
		ends   time.Duration // after the start; 0: no certificate
		length time.Duration // of the story
		want   []string
	}{
		{"none", 0, 3 * day, nil},
		{"far away", 30 * day, 3 * day, nil},
		{"in 14 days", certificateEndsSoon + time.Hour, time.Hour, nil},
		{"comes near", 15*day + time.Hour, 3*day - time.Minute, []string{
			probe + "ends in 13 days, at 2026-01-16T01:00:00Z", probe + "ends in 12 days, at 2026-01-16T01:00:00Z",
		}},
		{"tomorrow", day + time.Hour, time.Hour, []string{probe + "ends in 1 day, at 2026-01-02T01:00:00Z"}},
		{"within the hour", time.Hour, 30 * time.Minute, []string{probe + "ends in less than a day, at 2026-01-01T01:00:00Z"}},
		{"has ended", -time.Hour, 2*day - time.Minute, []string{
			probe + "has ended, at 2025-12-31T23:00:00Z", probe + "has ended, at 2025-12-31T23:00:00Z",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := simulateProbe(t, Readiness, "0s/1m/1/3", "0s runs")
			if tt.ends != 0 {
				sim.answers[Readiness].Certificate = sim.start.Add(tt.ends)
			}
			sim.advanceTo(sim.start.Add(tt.length))
			if got := certificateEvents(sim); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if c := sim.state.Certificate(Readiness); !c.NotAfter.Equal(sim.answers[Readiness].Certificate) || c.Soon != (len(tt.want) > 0) {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// A container that crashes all the time does not tell of its certificate in each run. A failure that
// showed a certificate counts, one that showed none changes nothing, and a new certificate ends it.
func TestCertificateOverRuns(t *testing.T) {
	sim := simulateProbe(t, Liveness, "0s/10s/1/3")
	sim.c.Pid, sim.c.Address = 7, "10.0.0.1"
	end := sim.start.Add(day)
	sim.answers[Liveness] = prober.Result{Outcome: prober.Failure, Cause: prober.TLS, Certificate: end}
	sim.play("0s runs", "5s exits 1", "1m exits 1", "5m")
	if got := certificateEvents(sim); len(got) != 1 {
		t.Errorf("got %q\n%s", got, sim.transcript.String())
	}
	const warning = "the certificate that its liveness probe sees ends or ended at 2026-01-02T00:00:00Z: renew it"
	if got := sim.view().Warnings(); !slices.Equal(got, []string{warning}) {
		t.Errorf("got %q", got)
	}
	sim.answers[Liveness] = prober.Result{Outcome: prober.Failure, Cause: prober.Refused}
	sim.play("10m")
	if got := sim.state.Certificate(Liveness); !got.NotAfter.Equal(end) || !got.Soon {
		t.Errorf("after a connection that failed: %+v", got)
	}
	sim.answers[Liveness] = prober.Result{Outcome: prober.Success, Certificate: end.Add(90 * day)}
	sim.play("20m")
	if got := sim.view().Warnings(); got != nil {
		t.Errorf("after it was renewed: %q", got)
	}
}

// The certificate of a probe that a reload changed may be another server's.
func TestCertificateOfAChangedProbe(t *testing.T) {
	sim := simulateProbe(t, Readiness, "0s/1m/1/3")
	sim.answers[Readiness].Certificate = sim.start.Add(day)
	sim.play("0s runs", "1m")
	old := *sim.spec
	changed := *sim.spec.Probes[Readiness]
	changed.Period = time.Hour
	sim.spec = &Spec{Name: old.Name, RestartPolicy: old.RestartPolicy, Backoff: old.Backoff, Probes: [NumProbes]*ProbeSpec{Readiness: &changed}}
	sim.step("reload", &Input{Kind: SpecChanged, OldSpec: &old})
	if got := sim.state.Certificate(Readiness); !got.NotAfter.IsZero() || got.Soon || got.ToldAt.IsZero() {
		t.Errorf("got %+v", got)
	}
}

// A redirect to TLS that is no longer there leaves no certificate behind, whose end would be an alarm.
func TestCertificateOfAServerWithoutTLS(t *testing.T) {
	sim := simulateProbe(t, Readiness, "0s/1m/1/3")
	sim.c.Pid, sim.c.Address = 7, "10.0.0.1"
	sim.answers[Readiness].Certificate = sim.start.Add(day)
	sim.play("0s runs", "1m")
	sim.answers[Readiness].Certificate = time.Time{}
	sim.play("3m")
	if got := sim.state.Certificate(Readiness); !got.NotAfter.IsZero() || got.Soon || got.ToldAt.IsZero() || sim.view().Warnings() != nil {
		t.Errorf("got %+v", got)
	}
}
