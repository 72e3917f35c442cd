package haproxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meters are what is counted of all HAProxies.
type meters struct {
	reachable *prometheus.GaugeVec
	commands  *prometheus.CounterVec
	errors    *prometheus.CounterVec
	problems  *prometheus.GaugeVec
	push      prometheus.Histogram
	pushed    prometheus.Observer // the same
}

func newMeters() *meters {
	m := &meters{
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_haproxy_up", Help: "Whether the HAProxy can be told anything.",
		}, []string{"socket"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_haproxy_commands_total", Help: "Commands that the HAProxy was given.",
		}, []string{"socket"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_haproxy_errors_total", Help: "Servers whose commands the HAProxy refused, or answered with what is not understood.",
		}, []string{"socket"}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_haproxy_problems", Help: "Servers and backends of the HAProxy that are not as they are to be.",
		}, []string{"socket"}),
		push: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "healthd_haproxy_push_seconds", Help: "Time from a change to the HAProxy's answer that it has it.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
	}
	m.pushed = m.push
	return m
}

func (m *meters) up(s socket, up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.reachable.WithLabelValues(s.text).Set(value)
}

func (m *meters) told(s socket, commands, failed int) {
	m.commands.WithLabelValues(s.text).Add(float64(commands))
	m.errors.WithLabelValues(s.text).Add(float64(failed))
}

func (m *meters) troubles(s socket, books map[string]*book) {
	n := 0
	for _, b := range books {
		n += len(b.troubles)
	}
	m.problems.WithLabelValues(s.text).Set(float64(n))
}

func (m *meters) took(d time.Duration) { m.pushed.Observe(d.Seconds()) }

func (m *meters) all() []prometheus.Collector {
	return []prometheus.Collector{m.reachable, m.commands, m.errors, m.problems, m.push}
}

// Describe implements prometheus.Collector.
func (h *HAProxy) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range h.metrics.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (h *HAProxy) Collect(ch chan<- prometheus.Metric) {
	if len(h.links) == 0 {
		return // nothing is told
	}
	for _, c := range h.metrics.all() {
		c.Collect(ch)
	}
}
