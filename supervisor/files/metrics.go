package files

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are of all files.
type metrics struct {
	up     *prometheus.GaugeVec
	writes *prometheus.CounterVec
	reload *prometheus.HistogramVec

	mu    sync.Mutex
	paths []string // of the files that have series
}

func newMetrics() *metrics {
	const label = "path"
	return &metrics{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_published_file_up", Help: "1 if the file is what it should be and its reload ended well, else 0.",
		}, []string{label}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_published_file_writes_total", Help: "How often the file was replaced.",
		}, []string{label}),
		reload: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "healthd_published_file_reload_duration_seconds", Help: "How long reloads of the file that ended well took.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{label}),
	}
}

// files shows series of these files, from their first values on, and of no others.
func (m *metrics) files(all []File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for i := range all {
		f := &all[i]
		paths = append(paths, f.Path)
		if !slices.Contains(m.paths, f.Path) {
			m.up.WithLabelValues(f.Path).Set(1) // nothing has failed yet
		}
		m.writes.WithLabelValues(f.Path).Add(0)
		if f.Reload != nil {
			m.reload.WithLabelValues(f.Path)
		}
	}
	for _, path := range m.paths {
		if !slices.Contains(paths, path) {
			labels := prometheus.Labels{"path": path}
			m.up.DeletePartialMatch(labels)
			m.writes.DeletePartialMatch(labels)
			m.reload.DeletePartialMatch(labels)
		}
	}
	m.paths = paths
}

// Describe implements prometheus.Collector.
func (p *Publisher) Describe(ch chan<- *prometheus.Desc) {
	p.metrics.up.Describe(ch)
	p.metrics.writes.Describe(ch)
	p.metrics.reload.Describe(ch)
}

// Collect implements prometheus.Collector.
func (p *Publisher) Collect(ch chan<- prometheus.Metric) {
	p.metrics.up.Collect(ch)
	p.metrics.writes.Collect(ch)
	p.metrics.reload.Collect(ch)
}
