package metrics

import (
	"time"

	"healthd/supervisor/core"
)

func (c *Collector) collectContainer(s sink, v *core.View, name string) {
	of := newOwner(name, core.ProjectOf(v.Container.Labels), v.Service)
	ready, _, _ := v.Readiness()
	s.gauge(c.ready, boolValue(ready), of.container, of.project, of.service)
	started, _ := v.Started()
	s.gauge(c.started, boolValue(started), of.container, of.project, of.service)
	c.collectRestarts(s, v, of)
	s.gauge(c.held, boolValue(v.State.Lasting.Held()), of.container, of.project, of.service)
	if v.Spec == nil {
		return
	}
	if w := v.Waiting(); w != nil {
		s.gauge(c.waiting, 1, of.container, of.project, newPair("reason", w.Reason), of.service)
	} else if end := v.State.Run.Exit; !v.State.Engine.State.Alive() && end.Reason != "" {
		s.gauge(c.terminated, 1, of.container, of.project, newPair("reason", end.Reason), of.service)
	}
	s.gauge(c.backoff, backoff(v, time.Now()).Seconds(), of.container)
	if hooks := v.Spec.Lifecycle; hooks.PostStart != nil || hooks.PreStop != nil || v.State.Totals.HTTPFallbacks > 0 {
		s.counter(c.fallbacks, float64(v.State.Totals.HTTPFallbacks), of.container)
	}
	for t, p := range v.Spec.Probes {
		if p != nil {
			c.collectProbe(s, v, core.ProbeType(t), of)
			c.collectCertificate(s, v, core.ProbeType(t), of)
		}
	}
}

// collectRestarts sends a counter for each cause that core has.
func (c *Collector) collectRestarts(s sink, v *core.View, of owner) {
	for i, n := range v.State.Lasting.Restarts {
		if core.Cause(i) != core.NoCause {
			s.counter(c.restarts, float64(n), of.container, causes[i])
		}
	}
}

func (c *Collector) collectProbe(s sink, v *core.View, t core.ProbeType, of owner) {
	totals := &v.State.Totals
	for outcome, result := range results {
		n, labels := float64(totals.Outcomes[t][outcome]), []pair{of.container, probeTypes[t], of.project, result, of.service}
		s.counter(c.probes, n, labels...)
		s.counter(c.kubeletProbes, n, labels...)
	}
	latency := totals.Latency(t)
	s.histogram(c.kubeletSeconds, core.LatencyBuckets[:], latency.Counts[:], latency.Sum, of.container, probeTypes[t])
}

// collectCertificate sends nothing for a probe that has seen no certificate.
func (c *Collector) collectCertificate(s sink, v *core.View, t core.ProbeType, of owner) {
	if end := v.State.Certificate(t).NotAfter; !end.IsZero() {
		s.gauge(c.certificate, float64(end.Unix()), of.container, probeTypes[t], of.project, of.service)
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
