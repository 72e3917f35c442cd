package dns

import (
	"slices"
	"sync/atomic"

	miekg "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// What queries are counted by: clients cannot make more series.
var (
	countedTypes = [...]string{"A", "AAAA", "SRV", "other"}
	countedCodes = [...]int{miekg.RcodeSuccess, miekg.RcodeNameError, miekg.RcodeServerFailure, miekg.RcodeRefused,
		miekg.RcodeFormatError, miekg.RcodeNotImplemented, miekg.RcodeBadVers}
	codeNames = [len(countedCodes)]string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "BADVERS"}
)

var descs = struct{ queries, unserved *prometheus.Desc }{
	queries: prometheus.NewDesc("healthd_dns_queries_total", "DNS queries that healthd answered.", []string{"type", "rcode"}, nil),
	unserved: prometheus.NewDesc("healthd_dns_unserved_services",
		"Services for which healthd does not answer DNS queries: they have no DNS name, or share it with others.", nil, nil),
}

// queryCounts counts by type and code.
type queryCounts [len(countedTypes)][len(countedCodes)]atomic.Uint64

func (c *queryCounts) count(r *request, rcode int) {
	const other = len(countedTypes) - 1
	of := other
	if len(r.Question) == 1 {
		switch r.Question[0].Qtype {
		case miekg.TypeA:
			of = 0
		case miekg.TypeAAAA:
			of = 1
		case miekg.TypeSRV:
			of = 2
		}
	}
	c[of][slices.Index(countedCodes[:], rcode)].Add(1)
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	ch <- descs.queries
	ch <- descs.unserved
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for t, name := range countedTypes {
		for c, code := range codeNames {
			n := float64(s.queries[t][c].Load())
			ch <- prometheus.MustNewConstMetric(descs.queries, prometheus.CounterValue, n, name, code)
		}
	}
	unserved := 0
	if x := s.newest.Load(); x != nil {
		unserved = x.unserved
	}
	ch <- prometheus.MustNewConstMetric(descs.unserved, prometheus.GaugeValue, float64(unserved))
}
