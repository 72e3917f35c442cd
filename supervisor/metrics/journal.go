package metrics

import "github.com/prometheus/client_golang/prometheus"

// NewJournal returns the metric of a journal that has a file; up says whether the file is being
// written, and any goroutine may call it.
func NewJournal(up func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "healthd_journal_up",
		Help: "1 if what healthd knows is being written to its state directory, else 0: then it is lost when healthd ends.",
	}, func() float64 { return boolValue(up()) })
}
