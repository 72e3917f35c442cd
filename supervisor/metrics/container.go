package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/prober"
	"healthd/supervisor/core"
)

func (c *Collector) collectContainer(s sink, v *core.View) {
	name := v.Container.Name
	ready, _, _ := v.Readiness()
	s.gauge(c.ready, number(ready), name, v.Service)
	started, _ := v.Started()
	s.gauge(c.started, number(started), name, v.Service)
	for _, cause := range []core.Cause{
		core.ByLiveness, core.ByStartup, core.ByPostStart, core.ByExit, core.ByOperator,
	} {
		s.counter(c.restarts, float64(v.State.Lasting.Restarts[cause]), name, cause.String())
	}
	if v.Spec == nil {
		return
	}
	s.gauge(c.backoff, backoff(v, time.Now()).Seconds(), name)
	if hooks := v.Spec.Lifecycle; hooks.PostStart != nil || hooks.PreStop != nil || v.State.Totals.HTTPFallbacks > 0 {
		s.counter(c.fallbacks, float64(v.State.Totals.HTTPFallbacks), name)
	}
	for t, p := range v.Spec.Probes {
		if p != nil {
			c.collectProbe(s, v, core.ProbeType(t))
		}
	}
}

func (c *Collector) collectProbe(s sink, v *core.View, t core.ProbeType) {
	name, totals := v.Container.Name, &v.State.Totals
	for outcome, result := range [...]string{
		prober.Unknown: "unknown", prober.Success: "successful", prober.Failure: "failed",
	} {
		s.counter(c.probes, float64(totals.Outcomes[t][outcome]), t.Title(), result, name, v.Service)
	}
	s.histogram(c.probeSeconds, core.LatencyBuckets[:], totals.Latency[t].Counts[:], totals.Latency[t].Sum, t.Title(), name)
}

// backoff leaves out one that the next end will not build upon.
func backoff(v *core.View, now time.Time) time.Duration {
	s := &v.State
	if !s.Lasting.Backoff.Active || s.Engine.State.Alive() && now.Sub(s.Health.BeganAt) > v.Spec.Backoff.ResetAfter {
		return 0
	}
	return s.Lasting.Backoff.Delay
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sink takes metrics. One that cannot be made makes the scrape say so instead of
// ending the daemon.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, valid(labels)...)
	s.put(d, m, err)
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.CounterValue, value, valid(labels)...)
	s.put(d, m, err)
}

// histogram takes counts per bucket, the last one of what is above all bounds.
func (s sink) histogram(d *prometheus.Desc, bounds []float64, counts []uint64, sum float64, labels ...string) {
	cumulative := make(map[float64]uint64, len(bounds))
	var total uint64
	for i, bound := range bounds {
		total += counts[i]
		cumulative[bound] = total
	}
	total += counts[len(bounds)]
	m, err := prometheus.NewConstHistogram(d, total, sum, cumulative, valid(labels)...)
	s.put(d, m, err)
}

func (s sink) put(d *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s <- m
}

// valid makes label values what Prometheus takes: UTF-8.
func valid(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}
