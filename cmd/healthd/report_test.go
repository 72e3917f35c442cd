package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
	"healthd/supervisor/report"
)

// reports knows two services, one of them by its days.
func reports(service string, since time.Time) (api.Report, error) {
	r := api.Report{From: clock.Add(-7 * 24 * time.Hour).Truncate(time.Hour), To: clock, Since: clock.Add(-3 * 24 * time.Hour)}
	web := api.ServiceReport{Name: "shop/web", Project: "shop", Total: api.ReportPeriod{
		ObservedSeconds: 259_200, StoppedSeconds: 7300, ReadySeconds: 259_199.99, CapacitySeconds: 200_000, Outages: 2, LongestOutageSeconds: 65.3,
		Restarts: map[string]int{"liveness": 2, "exit": 1}, Detections: 3, DetectionSumSeconds: 9.3, DetectionMaxSeconds: 21.2,
	}, Days: []api.ReportDay{
		{Day: "2025-12-31", Period: api.ReportPeriod{ObservedSeconds: 86_400, ReadySeconds: 86_400}},
		{Day: "2026-01-01", Period: api.ReportPeriod{ObservedSeconds: 7265, ReadySeconds: 7000, Outages: 1, LongestOutageSeconds: 9.96}},
	}}
	idle := api.ServiceReport{Name: "idle", Total: api.ReportPeriod{StoppedSeconds: 30}}
	switch service {
	case "":
		r.Services, r.Omitted = []api.ServiceReport{idle, web}, 2
	case "web":
		r.Services = []api.ServiceReport{web}
	case "young": // of a daemon that has just begun
		r.Since = time.Time{}
	case "twice":
		return api.Report{}, &supervisor.AmbiguousServiceError{Candidates: []string{"a/twice", "b/twice"}}
	default:
		return api.Report{}, supervisor.ErrUnknownService
	}
	return r, nil
}

func TestReportCommand(t *testing.T) {
	socket, _ := daemonWith(t, &fake{report: reports})
	var all strings.Builder
	for _, args := range [][]string{{"report"}, {"report", "web"}, {"report", "young"}, {"report", "-o", "json", "web"}} {
		got := inside(append(args, "--socket", socket)...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("%v: %+v", args, got)
		}
		all.WriteString("$ healthd " + strings.Join(args, " ") + "\n" + got.stdout + "\n")
	}
	golden(t, "report.txt", all.String())
	narrow := insideTerminal(80, "report", "--socket", socket)
	fits(t, narrow.stdout, 80)
	for name, want := range map[string]string{
		"none":  "healthd: cannot report none: nothing is known of a service \"none\"\n",
		"twice": "healthd: cannot report twice: several services have that name: a/twice, b/twice\n",
	} {
		if got := inside("report", name, "--socket", socket); got.code != 1 || got.stderr != want || got.stdout != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What the keeper has is what the API says.
func TestReportOfTheDaemon(t *testing.T) {
	d := &daemon{report: observedService()}
	r, err := d.reportOf("web", time.Now().Add(-time.Hour))
	if err != nil || len(r.Services) != 1 || r.Services[0].Name != "shop/web" || r.Since.IsZero() || r.Services[0].Days == nil {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.reportOf("x", time.Now()); !errors.Is(err, supervisor.ErrUnknownService) {
		t.Errorf("%v", err)
	}
	var restarts [len(core.Lasting{}.Restarts)]int
	restarts[core.ByExit] = 3
	p := newPeriod(&report.Summary{Observed: 5 * time.Second, Ready: 4 * time.Second, Restarts: restarts, Detections: 1, Detected: time.Second})
	if p.ObservedSeconds != 5 || p.ReadySeconds != 4 || len(p.Restarts) != 1 || p.Restarts["exit"] != 3 || p.DetectionSumSeconds != 1 {
		t.Errorf("%+v", p)
	}
}

// observedService returns a keeper that has seen one service.
func observedService() *report.Keeper {
	v := container("web-1", nil)
	v.Service = "shop/web"
	return report.Open(report.Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: v.Container.Runtime, Synced: true}}, v), Journal: journal.New()})
}

func TestSpansAndPercents(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 0.04: "0s", 3.14: "3.1s", 9.99: "10s", 65.3: "1m5s", 3600: "1h0m", 7325: "2h2m", 86_400: "1d0h", 7_776_000: "90d0h"} {
		if got := formatSpan(seconds); got != want {
			t.Errorf("%v: %s, want %s", seconds, got, want)
		}
	}
	for _, tt := range []struct {
		part, whole float64
		want        string
	}{{0, 0, "-"}, {0, 1, "0.000"}, {1, 1, "100"}, {1, 3, "33.333"}, {999_999, 1_000_000, "99.999"}, {999_999_999, 1e9, "99.999"}} {
		if got := formatPercent(tt.part, tt.whole); got != tt.want {
			t.Errorf("%v of %v: %s, want %s", tt.part, tt.whole, got, tt.want)
		}
	}
}
