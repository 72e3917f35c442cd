package dns

import (
	"fmt"
	"net"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
)

// Of a large service a UDP answer has as much as fits, each time others. Over TCP it has all.
func TestLargeService(t *testing.T) {
	const members = 1000
	s, _ := server(many("shop/web", members)...)
	for _, tt := range []struct {
		question string
		size     uint16 // of EDNS
		tcp      bool
		limit    int
		least    int // records
		all      bool
	}{
		{"web.shop.healthd. A", 0, false, 512, 29, false},
		{"web.shop.healthd. A", 100, false, 512, 28, false},
		{"web.shop.healthd. A", 1232, false, 1232, 73, false},
		{"web.shop.healthd. A", 65535, false, 1232, 73, false},
		{"web.shop.healthd. A", 0, true, 65535, members, true},
		{"web.shop.healthd. A", 512, true, 65535, members, true},
		{"web.shop.healthd. SRV", 0, false, 512, 9, false},
		{"_http._tcp.web.shop.healthd. SRV", 1232, false, 1232, 22, false},
		{"_http._tcp.web.shop.healthd. SRV", 1232, true, 65535, members, true},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			packet, err := question(tt.question, tt.size).Pack()
			if err != nil {
				t.Fatal(err)
			}
			packed := s.respond(newWriter(maxTCP), packet, tt.tcp)
			got := new(miekg.Msg)
			if err := got.Unpack(packed); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %d answers, %d others", len(packed), len(got.Answer), len(got.Extra))
			if len(packed) > tt.limit || len(got.Answer) < tt.least || got.Truncated == tt.all || (len(got.Answer) == members) != tt.all {
				t.Errorf("%d bytes, %d answers, truncated: %v", len(packed), len(got.Answer), got.Truncated)
			}
			if distinct := len(recordSet(got.Answer)); distinct != len(got.Answer) {
				t.Errorf("%d of %d answers are distinct", distinct, len(got.Answer))
			}
			if !tt.all && tt.question[0] == '_' && len(got.Extra) > 1 {
				t.Errorf("what is truncated has %d records that were not asked for", len(got.Extra))
			}
		})
	}
}

func recordSet(all []miekg.RR) map[string]bool {
	set := map[string]bool{}
	for _, rr := range all {
		set[record(rr)] = true
	}
	return set
}

// Records that were not asked for are left out first, without a mark.
func TestAdditionalRecordsGoFirst(t *testing.T) {
	s, _ := server(many("shop/web", 8)...)
	got := put(t, s, question("web.shop.healthd. SRV", 0), false)
	if got.Truncated || len(got.Answer) != 8 || len(got.Extra) == 0 || len(got.Extra) == 8 {
		t.Errorf("truncated: %v, %d answers, %d others", got.Truncated, len(got.Answer), len(got.Extra))
	}
}

// A name of the greatest length leaves room for a record, also without EDNS.
func TestLongestName(t *testing.T) {
	long := ""
	for len(long) < maxName-len(zone)-1 {
		long += "a"
		if len(long)%60 == 59 && len(long) < maxName-len(zone)-2 {
			long += "."
		}
	}
	container := strings.Repeat("x", 254-len(long)-len(".healthd.")-1) + "."
	s, _ := server(view(container[:len(container)-1], long, "10.0.0.1", owned))
	for question, want := range map[string]string{
		long + ".healthd. A": "10.0.0.1", container + long + ".healthd. A": "10.0.0.1", "_fifteen-letters._tcp." + long + ".healthd. SRV": container + long + ".healthd.:8080",
	} {
		got := put(t, s, questionWithout(question), false)
		if len(got.Answer) != 1 || record(got.Answer[0]) != want || got.Truncated {
			t.Errorf("%s: %v", question, got)
		}
	}
}

func questionWithout(text string) *miekg.Msg { return question(text, 0) }

// Each member may be the first, and all come in truncated answers sooner or later.
func TestShuffled(t *testing.T) {
	s, _ := server(many("shop/web", 4)...)
	orders := map[string]int{}
	const queries = 24 * 200
	for range queries {
		order := ""
		for _, rr := range put(t, s, question("web.shop.healthd. A", 0), false).Answer {
			order += record(rr) + " "
		}
		orders[order]++
	}
	for order, n := range orders {
		if n < 100 || n > 320 { // 200 are expected, with a deviation of 14
			t.Errorf("%d times %s", n, order)
		}
	}
	if len(orders) != 24 {
		t.Errorf("there are %d orders", len(orders))
	}

	s, _ = server(many("shop/web", 300)...)
	seen := map[string]bool{}
	for range 400 { // each leaves out nine tenths of them
		for _, rr := range put(t, s, question("web.shop.healthd. A", 0), false).Answer {
			seen[rr.(*miekg.A).A.String()] = true
		}
	}
	if len(seen) != 300 {
		t.Errorf("saw %d of 300", len(seen))
	}
}

// UDP and TCP have one address, and both answer.
func TestBothTransports(t *testing.T) {
	s, _ := server(many("shop/web", 100)...)
	address := start(t, s, 4)
	if got := ask(t, address, "udp", question("web.shop.healthd. A", 0)); !got.Truncated || len(got.Answer) != 29 {
		t.Errorf("UDP: truncated %v, %d answers", got.Truncated, len(got.Answer))
	}
	if got := ask(t, address, "tcp", question("web.shop.healthd. A", 0)); got.Truncated || len(got.Answer) != 100 {
		t.Errorf("TCP: truncated %v, %d answers", got.Truncated, len(got.Answer))
	}
}

// On all addresses of the host the answer comes from where the question went: else clients ignore it.
func TestEveryAddress(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s, _ := server(shop()...)
		ls, err := Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		serve(t, s, ls, 4)
		_, port, _ := net.SplitHostPort(ls.Addr().String())
		for _, host := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
			for _, network := range []string{"udp", "tcp"} {
				if got := line(ask(t, net.JoinHostPort(host, port), network, question("db.healthd. A", 0))); got != "10.0.1.1" {
					t.Errorf("%s at %s: %s", network, host, got)
				}
			}
		}
	}
}

// A client says by EDNS how much it takes, and means TCP, too: HAProxy does. Without the records that it has not asked
// for, an answer may be short enough.
func TestUnaskedOverTCP(t *testing.T) {
	s, _ := server(many("shop/web", 140)...)
	for size, whole := range map[uint16]bool{0: true, 8192: false, 65535: true} {
		m := question("_http._tcp.web.shop.healthd. SRV", size)
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		packed := s.respond(newWriter(maxTCP), packet, true)
		got := new(miekg.Msg)
		if err := got.Unpack(packed); err != nil {
			t.Fatal(err)
		}
		if (len(packed) > 8192) != whole || len(got.Answer) != 140 || (len(got.Extra) >= 140) != whole || got.Truncated {
			t.Errorf("%d: %d bytes, %d answers, %d others", size, len(packed), len(got.Answer), len(got.Extra))
		}
	}
}
