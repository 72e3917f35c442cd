package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reload makes metrics of the newest reload of the configuration. It is a prometheus.Collector.
type Reload struct {
	successful, at prometheus.Gauge
	certificates   *prometheus.GaugeVec
}

// NewReload returns a Reload that takes the start of the daemon for the newest one.
func NewReload() *Reload {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	r := &Reload{
		successful: gauge("healthd_config_last_reload_successful", "1 if the configuration was right when it was last read, else 0: then the one before is in force."),
		at:         gauge("healthd_config_last_reload_timestamp_seconds", "When the configuration was last read."),
		certificates: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "healthd_tls_client_certificate_expiry_seconds",
			Help: "Unix time at which a certificate ends that probes and hooks show servers.",
		}, []string{"file"}),
	}
	r.Done(true, time.Now())
	return r
}

// Done notes the outcome of a reload.
func (r *Reload) Done(successful bool, at time.Time) {
	r.successful.Set(boolValue(successful))
	r.at.Set(float64(at.UnixMilli()) / 1000)
}

// Certificates notes when healthd's own certificates end that the configuration in force has, by file.
func (r *Reload) Certificates(ends map[string]time.Time) {
	r.certificates.Reset()
	for file, end := range ends {
		r.certificates.WithLabelValues(file).Set(float64(end.Unix()))
	}
}

// Describe implements prometheus.Collector.
func (r *Reload) Describe(ch chan<- *prometheus.Desc) {
	r.successful.Describe(ch)
	r.at.Describe(ch)
	r.certificates.Describe(ch)
}

// Collect implements prometheus.Collector.
func (r *Reload) Collect(ch chan<- prometheus.Metric) {
	r.successful.Collect(ch)
	r.at.Collect(ch)
	r.certificates.Collect(ch)
}
