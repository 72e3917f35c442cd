// Package metrics makes Prometheus metrics of the supervisor's board. It counts nothing
// itself: every scrape reads the board, so a container that is gone leaves no series.
//
//	Prometheus ── /metrics ──▶ Handler ── Collector.Collect ──▶ supervisor.Board
//	                                   └─ others (package haproxy), Go runtime, process
package metrics

import (
	"log"
	"math"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Handler returns the handler of /metrics: metrics of the board, of the other collectors,
// and of the daemon's process.
func Handler(board *supervisor.Board, version string, errorLog *log.Logger, others ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		New(board, version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	registry.MustRegister(others...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: errorLog, ErrorHandling: promhttp.ContinueOnError,
	})
}

// Collector makes metrics of a board. It is a prometheus.Collector.
type Collector struct {
	board   *supervisor.Board
	version string

	probes, probeSeconds, kubeletProbes, kubeletSeconds *prometheus.Desc
	ready, started, restarts, backoff, invalid          *prometheus.Desc
	held, waiting, terminated, budget                   *prometheus.Desc
	fallbacks, certificate                              *prometheus.Desc
	runtimeUp, runtimeLag, relists, lateness, buildInfo *prometheus.Desc
}

// New returns the collector of a board; version is that of healthd_build_info.
func New(board *supervisor.Board, version string) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Collector{
		board: board, version: version,
		probes: desc("healthd_probe_total",
			"Probes of the container, by result. An unknown result does not count towards a threshold.",
			"probe_type", "result", "container", "service", "project"),
		probeSeconds: desc("healthd_probe_duration_seconds",
			"How long successful probes of the service's containers took.", "probe_type", "service", "project"),
		kubeletProbes: desc("prober_probe_total",
			"The same as healthd_probe_total, under the kubelet's name.",
			"probe_type", "result", "container", "service", "project"),
		kubeletSeconds: desc("prober_probe_duration_seconds",
			"How long successful probes of the container took, under the kubelet's name.", "probe_type", "container"),
		ready: desc("healthd_container_ready",
			"1 if healthd publishes the container as ready, else 0.", "container", "service", "project"),
		started: desc("healthd_container_started",
			"1 if the container runs and its post_start hook and startup probe have succeeded, else 0.", "container", "service", "project"),
		restarts: desc("healthd_container_restarts_total",
			"Restarts of the container, by what caused them. Includes restarts by the engine's own restart policy.", "container", "reason"),
		backoff: desc("healthd_container_backoff_seconds",
			"Back-off before the container's last restart; 0 once the container has run for backoff.reset_after.", "container"),
		fallbacks: desc("healthd_lifecycle_http_fallbacks_total",
			"Lifecycle hooks that healthd repeated over http, because the server answered https in plain HTTP.", "container"),
		held: desc("healthd_container_held",
			"1 if somebody holds the container, so that healthd does not restart it, else 0.", "container", "service", "project"),
		waiting: desc("healthd_container_waiting",
			"1 while the container waits for something, by reason.", "container", "service", "project", "reason"),
		terminated: desc("healthd_container_terminated",
			"1 while the container has ended and healthd does not start it again, by why it ended.", "container", "service", "project", "reason"),
		budget: desc("healthd_restart_budget_remaining",
			"Restarts for failed probes that may begin now on the whole host; +Inf without a limit."),
		certificate: desc("healthd_tls_certificate_expiry_seconds",
			"Unix time at which the certificate of the server that the probe asks ends.", "probe_type", "container", "service", "project"),
		invalid: desc("healthd_invalid_containers",
			"Containers that healthd does not supervise because their labels are wrong."),
		runtimeUp: desc("healthd_runtime_up",
			"1 if healthd can reach the runtime, else 0.", "runtime"),
		runtimeLag: desc("healthd_runtime_event_lag_seconds",
			"Time from the runtime's newest event until healthd read it.", "runtime"),
		relists: desc("healthd_runtime_relists_total",
			"Full lists of containers that healthd read from the runtimes, by reason.", "reason"),
		lateness: desc("healthd_probe_lateness_seconds",
			"Time from when a probe was due until it started."),
		buildInfo: desc("healthd_build_info",
			"Always 1. The labels have the versions of healthd and Go.", "version", "goversion"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.probes, c.probeSeconds, c.kubeletProbes, c.kubeletSeconds,
		c.ready, c.started, c.restarts, c.backoff, c.fallbacks, c.certificate, c.invalid, c.held, c.waiting, c.terminated, c.budget,
		c.runtimeUp, c.runtimeLag, c.relists, c.lateness, c.buildInfo,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := sink(ch)
	s.gauge(c.buildInfo, 1, newPair("goversion", runtime.Version()), newPair("version", c.version))
	c.collectRuntimes(s)
	counts, sum := c.board.Lateness()
	s.histogram(c.lateness, supervisor.LatenessBuckets[:], counts, sum)

	invalid, taken, probed := 0, map[string]bool{}, probed{}
	for _, v := range c.board.Views() {
		if v.Invalid != "" {
			invalid++
		}
		// The board changes meanwhile: a name may pass from one container to the next.
		if name, found := c.nameOf(v); found && !taken[name] {
			taken[name] = true
			c.collectContainer(s, v, name)
			probed.note(v)
		}
	}
	c.collectLatencies(s, probed)
	s.gauge(c.invalid, float64(invalid))
	c.collectBudget(s)
}

func (c *Collector) collectBudget(s sink) {
	b := c.board.Budget()
	if b == nil {
		return
	}
	remaining := math.Inf(1)
	if n, limited := b.Remaining(time.Now()); limited {
		remaining = float64(n)
	}
	s.gauge(c.budget, remaining)
}

// nameOf returns the name of v in labels of metrics, and whether the board finds v by its name.
// Another container of its runtime may have the same name for a moment; a scrape with both would
// fail.
func (c *Collector) nameOf(v *core.View) (name string, found bool) {
	name = c.board.NameOf(v.Container)
	of, err := c.board.Find(name)
	return strings.ToValidUTF8(name, "\uFFFD"), err == nil && of.Container.ID == v.Container.ID
}

func (c *Collector) collectRuntimes(s sink) {
	relists := map[string]int{}
	for _, r := range c.board.Runtimes() {
		name := newPair("runtime", r.Name)
		s.gauge(c.runtimeUp, boolValue(r.Up), name)
		s.gauge(c.runtimeLag, r.Lag.Seconds(), name)
		for reason, n := range r.Relists {
			relists[reason] += n
		}
	}
	for reason, n := range relists {
		s.counter(c.relists, float64(n), newPair("reason", reason))
	}
}
