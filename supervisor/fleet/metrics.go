package fleet

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	up          *prometheus.Desc
	hosts       *prometheus.Desc
	members     *prometheus.Desc
	wrong       *prometheus.Desc
	places      *prometheus.Desc
	renewals    *prometheus.CounterVec
	writes      prometheus.Counter
	relists     *prometheus.CounterVec
	certificate prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		up:      prometheus.NewDesc("healthd_fleet_up", "1 if the fleet's store reports changes of other hosts and takes those of this one, else 0.", nil, nil),
		hosts:   prometheus.NewDesc("healthd_fleet_hosts", "How many other hosts of the fleet are in that state: live, lost or left.", []string{"state"}, nil),
		members: prometheus.NewDesc("healthd_fleet_members", "How many members other hosts of the fleet have in that state: ready, draining or down.", []string{"state"}, nil),
		wrong:   prometheus.NewDesc("healthd_fleet_wrong_keys", "How many keys below the fleet's prefix are none of healthd's; 1000 stands for more, too.", nil, nil),
		places:  prometheus.NewDesc("healthd_fleet_places", "How many places this host holds, of groups whose limit is over all hosts of the fleet.", nil, nil),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_fleet_lease_renewals_total", Help: "How often this host's lease was renewed (ok), could not be (failed), or had ended (lost).",
		}, []string{"result"}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "healthd_fleet_writes_total", Help: "How many keys this host has written or deleted in the fleet's store.",
		}),
		relists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "healthd_fleet_relists_total", Help: "How often all keys of the fleet were listed, by why.",
		}, []string{"reason"}),
		certificate: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "healthd_fleet_certificate_expiry_seconds", Help: "When the certificate that healthd shows the fleet's store ends, as a Unix time.",
		}),
	}
	for _, result := range []string{"ok", "failed", "lost"} {
		m.renewals.WithLabelValues(result)
	}
	for _, reason := range listReasons {
		m.relists.WithLabelValues(string(reason))
	}
	return m
}

func (m *metrics) renewed(result string) { m.renewals.WithLabelValues(result).Inc() }

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	m := f.metrics
	for _, d := range []*prometheus.Desc{m.up, m.hosts, m.members, m.wrong, m.places} {
		ch <- d
	}
	m.renewals.Describe(ch)
	m.writes.Describe(ch)
	m.relists.Describe(ch)
	if f.showsCertificate() {
		m.certificate.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) {
	m, s := f.metrics, f.seen.Load()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	up := 0
	if s.Connected && !f.problems.any(aboutStore, aboutLease, aboutName, aboutPublish) {
		up = 1
	}
	gauge(m.up, up)
	hosts, members := map[HostState]int{}, MemberCounts{}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		hosts[h.State]++
		members.Ready += h.Members.Ready
		members.Draining += h.Members.Draining
		members.Down += h.Members.Down
	}
	for _, state := range []HostState{HostLive, HostLost, HostLeft} {
		gauge(m.hosts, hosts[state], string(state))
	}
	for _, state := range []string{stateReady, stateDraining, stateDown} {
		gauge(m.members, *members.of(state), state)
	}
	gauge(m.wrong, len(s.WrongKeys))
	gauge(m.places, f.places.held())
	m.renewals.Collect(ch)
	m.writes.Collect(ch)
	m.relists.Collect(ch)
	if f.showsCertificate() {
		m.certificate.Collect(ch)
	}
}

func (f *Fleet) showsCertificate() bool { return f.store.tls != nil && f.store.tls.cert != "" }
