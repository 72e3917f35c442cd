package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// soakName is that of the scenario in the table.
const soakName = "soak"

// figures are what must be flat, and how much each may grow beyond its noise. What is live in the heap shows a leak. The holes
// between that, which scrapes and reloads leave, become more for a while longer.
var figures = []figure{
	{"live heap", "MB", 2, func(s *sample) float64 { return s.live }},
	{"heap in use", "MB", 8, func(s *sample) float64 { return s.heap }},
	{"resident memory", "MB", 8, func(s *sample) float64 { return s.resident }},
	{"goroutines", "", 10, func(s *sample) float64 { return s.goroutines }},
	{"descriptors", "", 10, func(s *sample) float64 { return s.descriptors }},
}

// status is what healthd says of a container.
type status struct {
	Name  string
	Ready bool
}

func (s *soak) statuses() (all []status, err error) {
	return all, s.get(s.control, "/v1/containers", &all)
}

// awaitAllReady waits until healthd says that all containers are ready.
func (s *soak) awaitAllReady() error {
	return s.eventually(s.plan.patience(), "all containers are ready", func() error {
		all, err := s.statuses()
		ready := 0
		for _, c := range all {
			if c.Ready {
				ready++
			}
		}
		if ready < len(s.units) && err == nil {
			err = errors.Join(fmt.Errorf("%d of %d are", ready, len(s.units)), s.sleep(s.plan.period/5))
		}
		return err
	})
}

// checkAll looks once more at all containers, when nothing happens any more.
func (s *soak) checkAll() error {
	if err := s.awaitAllReady(); err != nil {
		s.findings.add(notReadyAgain, 1, "at the end: %v", err)
	}
	for _, u := range s.units {
		if err := s.checkSettled(u); err != nil {
			return err
		}
	}
	return nil
}

// judge shows what was done, and whether the figures are flat.
func (s *soak) judge(t *table) error {
	var acts []string
	for _, a := range soakActs {
		acts = append(acts, a.name)
	}
	p := s.plan
	t.note(soakName, "containers, time, period", "%d, %v of which %v warm-up, %v", p.containers, p.length, p.warmUp(), p.period)
	t.note(soakName, "what happened to containers", "%s", s.counted.describe(acts))
	t.note(soakName, "what happened besides", "%s", s.counted.describe([]string{engineRestarts, "crashes meanwhile", allReloads, refused, streamsRead, lists}))
	calls, err := s.calls()
	if err != nil {
		return err
	}
	t.note(soakName, "commands in containers", "%d", calls["exec start"])
	t.note(soakName, restarts, "%d", s.counted.of(restarts))
	for _, what := range []string{afterCrash, afterHang} {
		t.note(soakName, what, "%s", short(s.counted.longestOf(what)))
	}
	rest := s.sampler.between(p.warmUp(), p.length)
	var errs []error
	for _, f := range figures {
		f.slack *= p.slack
		g, err := growthOf(f, rest)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.flat(soakName, f, g)
	}
	if errs == nil {
		median := func(part []sample, of func(*sample) float64) float64 { return medianOf(figure{of: of}, part) }
		journal := func(s *sample) float64 { return s.journal }
		t.note(soakName, "journal, second quarter to the last", "%.1f to %.1f MB", median(part(rest, 1, quarters), journal), median(part(rest, quarters-1, quarters), journal))
		t.note(soakName, "CPU, median", "%.1f %% of a core", median(rest, func(s *sample) float64 { return s.cpu }))
	}
	return errors.Join(errs...)
}

// showFindings shows what healthd did wrong, or left undone.
func (s *soak) showFindings(t *table) error {
	for _, what := range allFindings {
		if what == missedProbe && s.plan.slack > 1 { // by who gives it time, too, for a machine that others use
			t.note(soakName, string(what), "%d", s.findings.count(what))
			continue
		}
		t.exactly(soakName, string(what), s.findings.count(what), 0)
	}
	text, err := s.scrape()
	lost, _ := metricIn(text, `healthd_runtime_relists_total{reason="lossy"}`) // which is not there before the first
	t.exactly(soakName, "lists for lost events", int(lost), 0)
	return err
}

// flat adds how a figure has grown from the second quarter to the last, and how its line rises.
func (t *table) flat(scenario string, f figure, g growth) {
	unit := ""
	if f.unit != "" {
		unit = " " + f.unit
	}
	t.add(scenario, f.name+", second quarter to the last; rise of its line",
		fmt.Sprintf("%.1f to %.1f%s; %+.1f%[3]s", g.second, g.last, unit, g.rise), fmt.Sprintf("≤ %+.1f%s", g.limit, unit), g.flat())
}

// rest is what healthd holds while nothing happens.
type rest struct{ goroutines, descriptors int }

// rest measures it without the rig's own connections but one.
func (s *soak) rest() (rest, error) {
	s.control.CloseIdleConnections()
	goroutines, descriptors, err := s.inside()
	return rest{goroutines, descriptors}, err
}

// end stops all containers, after which nothing may be asked, and removes them, after which nothing of them may be left.
func (s *soak) end(t *table) error {
	for _, u := range s.units {
		if err := s.stop(u); err != nil {
			return err
		}
	}
	if err := errors.Join(s.sleep(s.plan.period), s.forget(), s.sleep(3*s.plan.period)); err != nil {
		return err
	}
	seen, err := s.report(s.plan.period, 0)
	if err != nil {
		return err
	}
	t.exactly(soakName, "probes of stopped containers", seen.Asked, 0)
	for _, u := range s.units {
		if err := s.call(http.MethodDelete, "/containers/"+u.id+"?force=1", nil, nil); err != nil {
			return err
		}
	}
	return s.nothingLeft(t)
}

// nothingLeft shows what healthd has of containers that were all removed, once it has had time to forget them.
func (s *soak) nothingLeft(t *table) error {
	const slack = 3 // connections to healthd that end late
	var containers, series int
	var left rest
	err := s.eventually(s.plan.patience(), "nothing is left", func() error {
		all, err := s.statuses()
		if err != nil {
			return err
		}
		text, err := s.scrape()
		if err != nil {
			return err
		}
		containers, series = len(all), strings.Count(text, `container="`)
		if left, err = s.rest(); err != nil {
			return err
		}
		if containers+series > 0 || left.goroutines > s.before.goroutines+slack || left.descriptors > s.before.descriptors+slack {
			return errors.Join(errors.New("something is left"), s.sleep(time.Second))
		}
		return nil
	})
	if err != nil && s.ctx.Err() != nil {
		return err
	}
	t.exactly(soakName, "removed containers that healthd still shows", containers, 0)
	t.exactly(soakName, "series of metrics of removed containers", series, 0)
	t.noMore(soakName, "goroutines without containers, at the end", left.goroutines, s.before.goroutines+slack)
	t.noMore(soakName, "descriptors without containers, at the end", left.descriptors, s.before.descriptors+slack)
	return nil
}

// unmet returns an error that names what is not as it should be.
func (t *table) unmet() error {
	var names []string
	for _, r := range t.rows {
		if r.verdict == "NO" {
			names = append(names, r.what)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("not as it should be: %s", strings.Join(names, "; "))
}
