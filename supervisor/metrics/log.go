package metrics

import "github.com/prometheus/client_golang/prometheus"

// NewLog returns the metric of healthd's log; dropped says how many lines nothing took, and any goroutine may call it.
func NewLog(dropped func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "healthd_log_lines_dropped_total",
		Help: "Lines of healthd's log that were lost, because what reads it did not keep up or was away.",
	}, func() float64 { return float64(dropped()) })
}
