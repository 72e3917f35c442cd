package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"healthd/prober"
)

// commands makes metrics of how commands in containers wait for their turn to start.
type commands struct {
	waits        func() []prober.Waits
	wait, missed *prometheus.Desc
}

// NewCommands returns the metrics of a Prober's Waits. Any goroutine may call it.
func NewCommands(waits func() []prober.Waits) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"runtime", "kind"}, nil)
	}
	return &commands{
		waits: waits,
		wait: desc("healthd_exec_wait_seconds",
			"How long commands in containers waited for their turn to start, of those that had one."),
		missed: desc("healthd_exec_turns_missed_total",
			"Commands in containers that had no turn to start before their timeout."),
	}
}

// Describe implements prometheus.Collector.
func (c *commands) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.wait
	ch <- c.missed
}

// Collect implements prometheus.Collector.
func (c *commands) Collect(ch chan<- prometheus.Metric) {
	s := sink(ch)
	for _, w := range c.waits() {
		kind, runtime := newPair("kind", w.Kind), newPair("runtime", w.Runtime)
		s.histogram(c.wait, prober.WaitBuckets[:], w.Counts, w.Sum, kind, runtime)
		s.counter(c.missed, float64(w.Missed), kind, runtime)
	}
}
