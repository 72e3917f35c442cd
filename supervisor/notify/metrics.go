package notify

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label result.
const (
	deliveredResult = "delivered"
	failedResult    = "failed"
	droppedResult   = "dropped"
)

// metrics are of all receivers.
type metrics struct {
	total   *prometheus.CounterVec
	pending *prometheus.GaugeVec

	mu    sync.Mutex
	names []string // of the receivers that have series
}

func newMetrics() *metrics {
	return &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_notifications_total", Help: "Attempts to send a notification that were delivered or failed, and notifications that were dropped.",
		}, []string{"receiver", "result"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_notifications_pending", Help: "Notifications that the receiver has not got yet.",
		}, []string{"receiver"}),
	}
}

// receivers shows series of these receivers, from 0 on, and of no others.
func (m *metrics) receivers(all []Receiver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
		m.count(r.Name, deliveredResult, 0)
		m.count(r.Name, failedResult, 0)
		m.count(r.Name, droppedResult, 0)
		m.pending.WithLabelValues(r.Name).Add(0)
	}
	for _, name := range m.names {
		if !slices.Contains(names, name) {
			m.total.DeletePartialMatch(prometheus.Labels{"receiver": name})
			m.pending.DeleteLabelValues(name)
		}
	}
	m.names = names
}

func (m *metrics) count(receiver, result string, n int) {
	m.total.WithLabelValues(receiver, result).Add(float64(n))
}

// Describe implements prometheus.Collector.
func (n *Notifier) Describe(ch chan<- *prometheus.Desc) {
	n.metrics.total.Describe(ch)
	n.metrics.pending.Describe(ch)
}

// Collect implements prometheus.Collector.
func (n *Notifier) Collect(ch chan<- prometheus.Metric) {
	n.metrics.total.Collect(ch)
	n.metrics.pending.Collect(ch)
}
