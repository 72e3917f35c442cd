package dns

import (
	"net/netip"
	"strings"

	miekg "github.com/miekg/dns"
)

// ttl is that of all answers, in seconds: resolvers may ask each second.
const ttl = 1

// answer is what is answered to a question.
type answer struct {
	rcode     int
	outside   bool         // it is not about the zone
	addresses []netip.Addr // of one family
	endpoints []endpoint
	records   []miekg.RR // about the zone itself
	code      uint16     // with why, as in RFC 8914
	why       string     // for people; empty: that follows from the rest
}

// empty says that the answer has no records: then it has the zone's SOA, which says how long that holds.
func (a *answer) empty() bool {
	return !a.outside && (a.rcode == miekg.RcodeSuccess || a.rcode == miekg.RcodeNameError) &&
		len(a.addresses)+len(a.endpoints)+len(a.records) == 0
}

// reply returns the answer to a question about an index; nil until all containers are known. A stale index has names
// from before; which endpoints are ready is looked up.
func reply(q miekg.Question, x *index, live func(*service) *service) answer {
	switch {
	case q.Qclass != miekg.ClassINET:
		return answer{rcode: miekg.RcodeRefused, outside: true}
	case !miekg.IsSubDomain(zone, q.Name):
		return answer{rcode: miekg.RcodeRefused, outside: true, code: miekg.ExtendedErrorCodeNotAuthoritative, why: "healthd answers only for names in " + zone}
	case q.Qtype == miekg.TypeAXFR, q.Qtype == miekg.TypeIXFR:
		return answer{rcode: miekg.RcodeRefused, outside: true, code: miekg.ExtendedErrorCodeNotSupported, why: "healthd does not transfer its zone"}
	}
	name := strings.ToLower(q.Name)
	if records := aboutZone(name, q); records != nil {
		return answer{records: records}
	}
	if x == nil {
		return unknown("healthd does not know all containers yet")
	}
	n, srvOnly := x.find(name)
	if !n.exists && n.why == "" && x.gaps {
		missing := "cannot reach an engine"
		if x.alone {
			missing = "not all of other hosts"
		}
		return unknown("healthd knows no container of that name, and " + missing)
	}
	a := answer{code: miekg.ExtendedErrorCodeOther, why: n.why}
	switch {
	case !n.exists:
		a.rcode = miekg.RcodeNameError
	case q.Qtype == miekg.TypeANY:
		a.records = []miekg.RR{&miekg.HINFO{Hdr: header(q.Name, miekg.TypeHINFO), Cpu: "RFC8482"}}
	case n.service != nil:
		a.fill(live(n.service), q.Qtype, srvOnly)
	case n.host.IsValid() && (n.host.Is4() && q.Qtype == miekg.TypeA || n.host.Is6() && q.Qtype == miekg.TypeAAAA):
		a.addresses = []netip.Addr{n.host}
	}
	return a
}

// unknown answers about what may be there: then clients keep what they have.
func unknown(why string) answer {
	return answer{rcode: miekg.RcodeServerFailure, outside: true, code: miekg.ExtendedErrorCodeNotReady, why: why}
}

func (a *answer) fill(s *service, qtype uint16, srvOnly bool) {
	switch {
	case qtype == miekg.TypeSRV:
		a.endpoints = s.endpoints
	case srvOnly:
	case qtype == miekg.TypeA:
		a.addresses = s.v4
	case qtype == miekg.TypeAAAA:
		a.addresses = s.v6
	}
}

// find returns what a name in lower case stands for. Each service has SRV records, and those only, for every
// _NAME._tcp before its name, too.
func (x *index) find(name string) (n node, srvOnly bool) {
	if n, found := x.nodes[name]; found {
		return n, false
	}
	first, rest, _ := strings.Cut(name, ".")
	if isServiceLabel(first) {
		if base, found := strings.CutPrefix(rest, "_tcp."); found && x.nodes[base].service != nil {
			return x.nodes[base], true
		}
	}
	if first == "_tcp" && x.nodes[rest].service != nil {
		return node{exists: true}, false
	}
	return node{}, false
}

// aboutZone answers what resolvers ask of the zone itself; nil: the question is another one.
func aboutZone(name string, q miekg.Question) []miekg.RR {
	if name != zone {
		return nil
	}
	switch q.Qtype {
	case miekg.TypeSOA:
		return []miekg.RR{soa(q.Name)}
	case miekg.TypeNS:
		return []miekg.RR{&miekg.NS{Hdr: header(q.Name, miekg.TypeNS), Ns: zone}}
	}
	return nil
}

// soa is the same all the time: nobody copies the zone, so nobody compares its serial number.
func soa(name string) miekg.RR {
	return &miekg.SOA{Hdr: header(name, miekg.TypeSOA), Ns: zone, Mbox: "nobody.invalid.", Serial: 1, Refresh: ttl, Retry: ttl, Expire: 86400, Minttl: ttl}
}

func header(name string, rrtype uint16) miekg.RR_Header {
	return miekg.RR_Header{Name: name, Rrtype: rrtype, Class: miekg.ClassINET, Ttl: ttl}
}
