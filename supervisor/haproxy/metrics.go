package haproxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of all instances.
type metrics struct {
	reachable *prometheus.GaugeVec
	commands  *prometheus.CounterVec
	errors    *prometheus.CounterVec
	problems  *prometheus.GaugeVec
	push      prometheus.Histogram
	pushed    prometheus.Observer // the same
}

func newMetrics() *metrics {
	m := &metrics{
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_haproxy_up", Help: "1 if healthd can update the HAProxy, else 0.",
		}, []string{"socket"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_haproxy_commands_total", Help: "Commands that healthd sent to the HAProxy.",
		}, []string{"socket"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_haproxy_errors_total", Help: "Servers for which the HAProxy refused a command or gave an invalid answer.",
		}, []string{"socket"}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_haproxy_problems", Help: "Servers and backends of the HAProxy that healthd cannot bring into the wanted state.",
		}, []string{"socket"}),
		push: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "healthd_haproxy_push_seconds", Help: "Time from a change until the HAProxy confirmed it.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
	}
	m.pushed = m.push
	return m
}

// begin shows the series of an instance before it has answered: a counter that comes with its first
// error has no increase, and one that has never been reached must not look as if it were not configured.
func (m *metrics) begin(s socket) {
	m.setUp(s, false)
	m.countCommands(s, 0, 0)
	m.problems.WithLabelValues(s.text).Set(0)
}

func (m *metrics) setUp(s socket, up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.reachable.WithLabelValues(s.text).Set(value)
}

func (m *metrics) countCommands(s socket, commands, failed int) {
	m.commands.WithLabelValues(s.text).Add(float64(commands))
	m.errors.WithLabelValues(s.text).Add(float64(failed))
}

func (m *metrics) setProblems(s socket, books map[string]*backendState) {
	n := 0
	for _, b := range books {
		n += len(b.openProblems)
	}
	m.problems.WithLabelValues(s.text).Set(float64(n))
}

func (m *metrics) observePush(d time.Duration) { m.pushed.Observe(d.Seconds()) }

func (m *metrics) all() []prometheus.Collector {
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
	if len(h.instances) == 0 {
		return // no HAProxy is configured
	}
	for _, c := range h.metrics.all() {
		c.Collect(ch)
	}
}
