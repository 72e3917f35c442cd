package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/report"
)

// reportOf answers /v1/report.
func (d *daemon) reportOf(service string, since time.Time) (api.Report, error) {
	r, err := d.report.Report(service, since)
	if err != nil {
		return api.Report{}, err
	}
	answer := api.Report{From: r.From, To: r.To, Since: r.Began, Omitted: r.Omitted, Services: []api.ServiceReport{}}
	for i := range r.Services {
		s := &r.Services[i]
		of := api.ServiceReport{Name: s.Name, Project: s.Project, Total: newPeriod(&s.Summary), Days: []api.ReportDay{}}
		if service != "" {
			for j := range s.Days {
				of.Days = append(of.Days, api.ReportDay{Day: s.Days[j].Begin.Format(time.DateOnly), Period: newPeriod(&s.Days[j].Summary)})
			}
		}
		answer.Services = append(answer.Services, of)
	}
	return answer, nil
}

func newPeriod(s *report.Summary) api.ReportPeriod {
	p := api.ReportPeriod{
		ObservedSeconds: s.Observed.Seconds(), StoppedSeconds: s.Stopped.Seconds(), ReadySeconds: s.Ready.Seconds(), CapacitySeconds: s.Capacity.Seconds(),
		Outages: s.Outages, LongestOutageSeconds: s.Longest.Seconds(), Restarts: map[string]int{},
		Detections: s.Detections, DetectionSumSeconds: s.Detected.Seconds(), DetectionMaxSeconds: s.Slowest.Seconds(),
	}
	for cause, n := range s.Restarts {
		if n > 0 {
			p.Restarts[core.Cause(cause).String()] = n
		}
	}
	return p
}

const longReport = `Show how healthy the services were: for which part of the time at least one container was ready, outages, restarts by
cause, and how long probes took to find failures. Of one service it shows each day, in UTC. A report begins with the hour of --since, and
with the day if that is more than a week ago.

Time in which healthd did not run is not observed. It counts neither as ready nor as an outage, as that in which people
had stopped all containers.`

func (a *app) reportCommand() *cobra.Command {
	var output, since string
	cmd := &cobra.Command{
		Use:               "report [SERVICE]",
		Short:             "Show how healthy all services, or one, were over time",
		Long:              longReport,
		Example:           "  healthd report\n  healthd report shop/web --since 30d\n  healthd report --since 24h -o json",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeService,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, asTable, asJSON); err != nil {
				return err
			}
			from, err := parseSince(since, time.Now())
			if err == nil {
				err = api.CheckReport(from, time.Now())
			}
			if err != nil {
				return usageError{fmt.Errorf("--%w", err)} // it begins with "since"
			}
			query := url.Values{"since": {from.Format(time.RFC3339Nano)}}
			if len(args) > 0 {
				query.Set("service", args[0])
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd)
			defer cancel()
			return a.printReport(ctx, c, query, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", asTable, "table or json")
	cmd.Flags().StringVar(&since, "since", "7d", "begin then: a duration from 1h to 90d, or a time such as \"2006-01-02 15:04:05\"")
	return cmd
}

func (a *app) completeService(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var services []api.Service
	_ = c.get(cmd.Context(), "/v1/services", nil, &services) // nothing to offer
	var names []string
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) printReport(ctx context.Context, c *client, query url.Values, output string) error {
	var r api.Report
	if err := c.get(ctx, "/v1/report", query, &r); err != nil {
		if name := query.Get("service"); name != "" {
			return unlessCancelled(ctx, fmt.Errorf("cannot report %s: %w", name, err))
		}
		return unlessCancelled(ctx, fmt.Errorf("cannot report: %w", err))
	}
	if output == asJSON {
		encoder := json.NewEncoder(supervisor.Escaping{To: a.stdout})
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	text := reportHead(&r)
	switch {
	case len(r.Services) == 0:
		text += "No service was observed\n"
	case query.Has("service"):
		text += "\n" + a.reportDays(&r.Services[0])
	default:
		text += "\n" + a.reportServices(&r)
	}
	_, err := io.WriteString(a.stdout, text)
	return err
}

// reportHead says of which time the report is.
func reportHead(r *api.Report) string {
	text := fmt.Sprintf("From %s to %s\n", formatTime(r.From), formatTime(r.To))
	switch {
	case r.Since.IsZero():
		text += "healthd has observed nothing yet\n"
	case r.Since.After(r.From):
		text += "healthd observes since " + formatTime(r.Since) + "\n"
	}
	if r.Omitted > 0 {
		text += "There was no room for " + plural(r.Omitted, "service") + "\n"
	}
	return text
}

var reportColumns = []string{"READY %", "OUTAGES", "LONGEST", "RESTARTS", "DETECTED", "OBSERVED"}

func (a *app) reportServices(r *api.Report) string {
	t := table{header: append([]string{"SERVICE"}, reportColumns...), width: a.columns(), flexible: []flexible{{column: 4, least: 12, wraps: true}, {column: 0, least: 12}, {column: 5, least: 10, wraps: true}, {column: 6, least: 8, wraps: true}}}
	for i := range r.Services {
		s := &r.Services[i]
		t.add(append([]cell{{text: line(s.Name)}}, periodCells(&s.Total)...)...)
	}
	return t.String()
}

func (a *app) reportDays(s *api.ServiceReport) string {
	t := table{header: append([]string{"DAY (UTC)"}, reportColumns...), width: a.columns(), flexible: []flexible{{column: 4, least: 12, wraps: true}, {column: 5, least: 10, wraps: true}, {column: 6, least: 8, wraps: true}}}
	for i := range s.Days {
		d := &s.Days[i]
		t.add(append([]cell{{text: line(d.Day)}}, periodCells(&d.Period)...)...)
	}
	t.add(append([]cell{{text: "all"}}, periodCells(&s.Total)...)...)
	return line(s.Name) + "\n" + t.String()
}

func periodCells(p *api.ReportPeriod) []cell {
	longest, detected, observed := "-", "-", formatSpan(p.ObservedSeconds)
	if p.LongestOutageSeconds > 0 {
		longest = formatSpan(p.LongestOutageSeconds)
	}
	if p.Detections > 0 {
		detected = fmt.Sprintf("%s, at most %s", formatSpan(p.DetectionSumSeconds/float64(p.Detections)), formatSpan(p.DetectionMaxSeconds))
	}
	if p.StoppedSeconds > 0 {
		observed += ", stopped " + formatSpan(p.StoppedSeconds)
	}
	return []cell{{text: formatPercent(p.ReadySeconds, p.ObservedSeconds)}, {text: fmt.Sprint(p.Outages)}, {text: longest}, {text: restartsText(p.Restarts)}, {text: detected}, {text: observed}}
}

// restartsText lists the causes in the order of core.
func restartsText(restarts map[string]int) string {
	var parts []string
	for cause := range len(core.Lasting{}.Restarts) {
		if n := restarts[core.Cause(cause).String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", core.Cause(cause), n))
		}
	}
	return orDash(strings.Join(parts, ", "))
}

// formatPercent rounds down: 100 is never said of what was not ready all the time.
func formatPercent(part, whole float64) string {
	const digits = 1000
	switch {
	case whole <= 0:
		return "-"
	case part >= whole:
		return "100"
	}
	return fmt.Sprintf("%.3f", math.Floor(part/whole*100*digits)/digits)
}

// formatSpan formats seconds in their two largest units.
func formatSpan(seconds float64) string {
	const day = 24 * time.Hour
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
