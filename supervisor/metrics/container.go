package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/prober"
	"healthd/supervisor/core"
)

func (c *Collector) collectContainer(s sink, v *core.View, name string) {
	ready, _, _ := v.Readiness()
	project := core.ProjectOf(v.Container.Labels)
	s.gauge(c.ready, boolValue(ready), name, v.Service, project)
	started, _ := v.Started()
	s.gauge(c.started, boolValue(started), name, v.Service, project)
	c.collectRestarts(s, v, name)
	s.gauge(c.held, boolValue(v.State.Lasting.Held), name, v.Service, project)
	if v.Spec == nil {
		return
	}
	if w := v.Waiting(); w != nil {
		s.gauge(c.waiting, 1, name, v.Service, project, w.Reason)
	} else if end := v.State.Run.Exit; !v.State.Engine.State.Alive() && end.Reason != "" {
		s.gauge(c.terminated, 1, name, v.Service, project, end.Reason)
	}
	s.gauge(c.backoff, backoff(v, time.Now()).Seconds(), name)
	if hooks := v.Spec.Lifecycle; hooks.PostStart != nil || hooks.PreStop != nil || v.State.Totals.HTTPFallbacks > 0 {
		s.counter(c.fallbacks, float64(v.State.Totals.HTTPFallbacks), name)
	}
	for t, p := range v.Spec.Probes {
		if p != nil {
			c.collectProbe(s, v, core.ProbeType(t), name, project)
			c.collectCertificate(s, v, core.ProbeType(t), name, project)
		}
	}
}

// collectRestarts sends a counter for each cause that core has.
func (c *Collector) collectRestarts(s sink, v *core.View, name string) {
	for i, n := range v.State.Lasting.Restarts {
		if cause := core.Cause(i); cause != core.NoCause {
			s.counter(c.restarts, float64(n), name, cause.String())
		}
	}
}

func (c *Collector) collectProbe(s sink, v *core.View, t core.ProbeType, name, project string) {
	totals := &v.State.Totals
	for outcome, result := range [...]string{
		prober.Unknown: "unknown", prober.Success: "successful", prober.Failure: "failed",
	} {
		n := float64(totals.Outcomes[t][outcome])
		s.counter(c.probes, n, t.Title(), result, name, v.Service, project)
		s.counter(c.kubeletProbes, n, t.Title(), result, name, v.Service, project)
	}
	s.histogram(c.kubeletSeconds, core.LatencyBuckets[:], totals.Latency[t].Counts[:], totals.Latency[t].Sum, t.Title(), name)
}

// collectCertificate sends nothing for a probe that has seen no certificate.
func (c *Collector) collectCertificate(s sink, v *core.View, t core.ProbeType, name, project string) {
	if end := v.State.Certificate(t).NotAfter; !end.IsZero() {
		s.gauge(c.certificate, float64(end.Unix()), t.Title(), name, v.Service, project)
	}
}

// backoff returns 0 for a back-off that the present run has outlived: the next one starts
// afresh.
func backoff(v *core.View, now time.Time) time.Duration {
	s := &v.State
	if !s.Lasting.Backoff.Active || s.Engine.State.Alive() && now.Sub(s.Run.BeganAt) > v.Spec.Backoff.ResetAfter {
		return 0
	}
	return s.Lasting.Backoff.Delay
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sink takes metrics. An invalid one makes the scrape fail instead of a panic.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, validLabels(labels)...)
	s.put(d, m, err)
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.CounterValue, value, validLabels(labels)...)
	s.put(d, m, err)
}

// histogram takes the counts of each bucket; the last one is above all bounds.
func (s sink) histogram(d *prometheus.Desc, bounds []float64, counts []uint64, sum float64, labels ...string) {
	cumulative := make(map[float64]uint64, len(bounds))
	var total uint64
	for i, bound := range bounds {
		total += counts[i]
		cumulative[bound] = total
	}
	total += counts[len(bounds)]
	m, err := prometheus.NewConstHistogram(d, total, sum, cumulative, validLabels(labels)...)
	s.put(d, m, err)
}

func (s sink) put(d *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s <- m
}

// validLabels makes label values valid UTF-8, as Prometheus requires.
func validLabels(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}
