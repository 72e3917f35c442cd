package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"healthd/prober"
	"healthd/supervisor/core"
)

// The metrics of a container share their labels: labels of their own, as prometheus.NewConstMetric makes them, are
// most of what a scrape takes of memory.

// pair is one label with its value. It never changes.
type pair = *dto.LabelPair

// newPair makes the value valid UTF-8, as Prometheus requires.
func newPair(name, value string) pair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &dto.LabelPair{Name: &name, Value: &value}
}

// owner has the labels that say which container a metric is of.
type owner struct{ container, project, service pair }

func newOwner(name, project, service string) owner {
	return owner{newPair("container", name), newPair("project", project), newPair("service", service)}
}

var (
	probeTypes = func() (all [core.NumProbes]pair) {
		for t := range all {
			all[t] = newPair("probe_type", core.ProbeType(t).Title())
		}
		return all
	}()
	results = [...]pair{
		prober.Unknown: newPair("result", "unknown"), prober.Success: newPair("result", "successful"), prober.Failure: newPair("result", "failed"),
	}
	causes = func() (all [len(core.Lasting{}.Restarts)]pair) {
		for c := range all {
			all[c] = newPair("reason", core.Cause(c).String())
		}
		return all
	}()
)

// sink takes metrics. Their labels are those of the Desc, sorted by name.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...pair) {
	s <- &number{desc: d, labels: labels, value: value, gauge: true}
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...pair) {
	s <- &number{desc: d, labels: labels, value: value}
}

// histogram takes the upper bounds of the buckets, and the count of each; the last count is above all bounds. Neither
// may change.
func (s sink) histogram(d *prometheus.Desc, bounds []float64, counts []uint64, sum float64, labels ...pair) {
	s <- &histogram{desc: d, labels: labels, bounds: bounds, counts: counts, sum: sum}
}

// number is a gauge or a counter. It is a prometheus.Metric.
type number struct {
	desc   *prometheus.Desc
	labels []pair
	value  float64
	gauge  bool
}

// Desc implements prometheus.Metric.
func (n *number) Desc() *prometheus.Desc { return n.desc }

// Write implements prometheus.Metric.
func (n *number) Write(out *dto.Metric) error {
	out.Label = n.labels
	if n.gauge {
		out.Gauge = &dto.Gauge{Value: &n.value}
	} else {
		out.Counter = &dto.Counter{Value: &n.value}
	}
	return nil
}

// histogram is a prometheus.Metric.
type histogram struct {
	desc   *prometheus.Desc
	labels []pair
	bounds []float64
	counts []uint64
	sum    float64
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	buckets, sums := make([]dto.Bucket, len(h.bounds)), make([]uint64, len(h.counts))
	total, all := uint64(0), make([]*dto.Bucket, len(buckets))
	for i := range sums {
		total += h.counts[i]
		sums[i] = total
	}
	for i := range buckets {
		b := &buckets[i]
		b.CumulativeCount, b.UpperBound = &sums[i], &h.bounds[i]
		all[i] = b
	}
	out.Label = h.labels
	out.Histogram = &dto.Histogram{SampleCount: &sums[len(sums)-1], SampleSum: &h.sum, Bucket: all}
	return nil
}
