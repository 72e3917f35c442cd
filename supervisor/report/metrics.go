package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"healthd/supervisor/core"
)

// descs describe the metrics. They count since the start of the daemon, and only of services that have a container now.
var descs = struct{ observed, ready, outages, restarts, detection *prometheus.Desc }{
	observed: prometheus.NewDesc("healthd_service_observed_seconds_total",
		"Time for which healthd watched the service. Not that in which people had stopped all its containers.", []string{"service", "project"}, nil),
	ready: prometheus.NewDesc("healthd_service_ready_seconds_total",
		"Of the observed time, that in which at least one container of the service was ready.", []string{"service", "project"}, nil),
	outages: prometheus.NewDesc("healthd_service_outages_total",
		"How often the service lost its last ready container.", []string{"service", "project"}, nil),
	restarts: prometheus.NewDesc("healthd_service_restarts_total",
		"Restarts of the service's containers, by what caused them.", []string{"service", "project", "reason"}, nil),
	detection: prometheus.NewDesc("healthd_service_detection_seconds",
		"How long probes took to find failures of the service, each from the first failed probe to the verdict.", []string{"service", "project"}, nil),
}

// Describe implements prometheus.Collector.
func (k *Keeper) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descs.observed, descs.ready, descs.outages, descs.restarts, descs.detection} {
		ch <- d
	}
}

// total is a service's for one scrape.
type total struct {
	service, project string
	Summary
}

// Collect implements prometheus.Collector.
func (k *Keeper) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	for _, t := range k.totals() {
		counter(descs.observed, t.Observed.Seconds(), t.service, t.project)
		counter(descs.ready, t.Ready.Seconds(), t.service, t.project)
		counter(descs.outages, float64(t.Outages), t.service, t.project)
		for cause, n := range t.Restarts {
			if core.Cause(cause) != core.NoCause {
				counter(descs.restarts, float64(n), t.service, t.project, core.Cause(cause).String())
			}
		}
		ch <- prometheus.MustNewConstSummary(descs.detection, uint64(t.Detections), t.Detected.Seconds(), nil, t.service, t.project)
	}
}

// totals returns what there is, so that a slow scrape keeps nobody waiting.
func (k *Keeper) totals() []total {
	k.look() // up to this moment
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]total, 0, len(k.ledger.services))
	for _, name := range k.ledger.names() {
		if s := k.ledger.services[name]; s.present {
			all = append(all, total{s.name, s.project, s.total})
		}
	}
	return all
}
