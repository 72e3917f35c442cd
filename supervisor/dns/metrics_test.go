package dns

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

func TestMetrics(t *testing.T) {
	s, _ := server(append(shop(), view("x", "x/a..b", "10.0.0.1"))...)
	if n := testutil.CollectAndCount(s); n != 4*7+1 {
		t.Errorf("%d series before the first query", n)
	}
	for _, q := range []string{"web.shop.healthd. A", "web.shop.healthd. A", "x.healthd. SRV", "web.shop.healthd. TYPE65280", "example.com. AAAA"} {
		m := question(q, 0)
		if strings.HasSuffix(q, "TYPE65280") {
			m.Question[0].Qtype = 65280
		}
		put(t, s, m, false)
	}
	s.respond(newWriter(maxUDP), make([]byte, headerLength), false)
	const want = `
# HELP healthd_dns_queries_total DNS queries that healthd answered.
# TYPE healthd_dns_queries_total counter
healthd_dns_queries_total{rcode="NOERROR",type="A"} 2
healthd_dns_queries_total{rcode="NXDOMAIN",type="SRV"} 1
healthd_dns_queries_total{rcode="NOERROR",type="other"} 1
healthd_dns_queries_total{rcode="REFUSED",type="AAAA"} 1
healthd_dns_queries_total{rcode="FORMERR",type="other"} 1
# HELP healthd_dns_unserved_services Services for which healthd does not answer DNS queries: they have no DNS name, or share it with others.
# TYPE healthd_dns_unserved_services gauge
healthd_dns_unserved_services 1
`
	if err := testutil.CollectAndCompare(nonzero{s}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// nonzero leaves out the counters of what has not happened.
type nonzero struct{ *Server }

// Collect implements prometheus.Collector.
func (n nonzero) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 100)
	n.Server.Collect(all)
	close(all)
	for m := range all {
		var value dto.Metric
		if err := m.Write(&value); err != nil || value.GetCounter().GetValue()+value.GetGauge().GetValue() > 0 {
			ch <- m
		}
	}
}
