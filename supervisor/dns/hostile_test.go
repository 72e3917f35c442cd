package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

func packed(t testing.TB, m *miekg.Msg) []byte {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

// hostile are packets that are no good queries, with the code of the answer; -1: there is none.
func hostile(t testing.TB) map[string]struct {
	packet []byte
	rcode  int
} {
	good := packed(t, question("web.shop.healthd. A", 1232))
	change := func(at int, bytes ...byte) []byte {
		p := append([]byte(nil), good...)
		copy(p[at:], bytes)
		return p
	}
	type hostile = struct {
		packet []byte
		rcode  int
	}
	return map[string]hostile{
		"nothing":                  {nil, -1},
		"one byte":                 {[]byte{1}, -1},
		"half a header":            {good[:11], -1},
		"an answer":                {change(2, 0x80), -1},
		"a header only":            {good[:12], miekg.RcodeFormatError},
		"half a question":          {good[:20], miekg.RcodeFormatError},
		"half an OPT":              {good[:len(good)-5], miekg.RcodeFormatError},
		"65535 questions":          {change(4, 0xff, 0xff), miekg.RcodeFormatError},
		"65535 answers":            {change(6, 0xff, 0xff), miekg.RcodeFormatError},
		"65535 others":             {change(10, 0xff, 0xff), miekg.RcodeFormatError},
		"a name in itself":         {change(12, 0xc0, 12), miekg.RcodeFormatError},
		"a name after the end":     {change(12, 0xff, 0xff), miekg.RcodeFormatError},
		"a label that is too long": {change(12, 0x7f), miekg.RcodeFormatError},
		"opcode 15":                {change(2, 0x78), miekg.RcodeNotImplemented},
		"more bytes than it needs": {append(change(0), make([]byte, 900)...), 0},
		"longer than any query":    {append(change(0), make([]byte, 3000)...), miekg.RcodeFormatError},
		"bytes that are no text":   {change(13, 0, 0xff, '.'), miekg.RcodeNameError},
	}
}

func TestHostilePackets(t *testing.T) {
	s, _ := server(shop()...)
	address := start(t, s, 4)
	for name, h := range hostile(t) {
		conn, err := net.Dial("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(h.packet); err != nil {
			t.Fatal(err)
		}
		if h.rcode < 0 { // the answer to another one comes instead
			if _, err := conn.Write(packed(t, question("x. A", 0))); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, maxTCP)
		n, err := conn.Read(buf)
		answer := new(miekg.Msg)
		if err == nil {
			err = answer.Unpack(buf[:n])
		}
		want := h.rcode
		if want < 0 {
			want = miekg.RcodeRefused
		}
		if err != nil || answer.Rcode != want || !answer.Response {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
		conn.Close()
	}
	if got := line(ask(t, address, "udp", question("db.healthd. A", 0))); got != "10.0.1.1" {
		t.Errorf("then: %s", got)
	}
}

// On a connection, too, and one that sends no query at all loses it.
func TestHostileConnections(t *testing.T) {
	s, _ := server(shop()...)
	address := start(t, s, 4)
	for name, send := range map[string]string{
		"too long":  "\xff\xff",
		"empty":     "\x00\x00",
		"no header": "\x00\x05hello",
		"an answer": "\x00\x0c\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"HTTP":      "GET / HTTP/1.1\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, send); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		conn.Close()
	}
}

// Several queries on a connection, some of them at once, are answered in their order.
func TestPipelined(t *testing.T) {
	s, _ := server(shop()...)
	conn, err := net.Dial("tcp", start(t, s, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	c := miekg.Conn{Conn: conn}
	names := []string{"db.healthd. A", "web.shop.healthd. A", "nobody.healthd. A"}
	for _, name := range append(names, names...) {
		if err := c.WriteMsg(question(name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"10.0.1.1", "10.0.0.1 10.0.0.2", "NXDOMAIN +soa", "10.0.1.1", "10.0.0.1 10.0.0.2", "NXDOMAIN +soa"} {
		if m, err := c.ReadMsg(); err != nil || line(m) != want {
			t.Errorf("answer %d: %v, %v", i, m, err)
		}
	}
}

// backlog is a listener whose clients the test makes.
type backlog struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (b *backlog) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

func (b *backlog) Close() error   { close(b.closed); return nil }
func (b *backlog) Addr() net.Addr { return &net.TCPAddr{} }

func (b *backlog) connect() net.Conn {
	client, server := net.Pipe()
	b.conns <- server
	return client
}

func TestSlowClients(t *testing.T) {
	query := packed(t, question("db.healthd. A", 0))
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	for name, behave := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"byte by byte": func(conn net.Conn) {
			for _, c := range framed {
				if _, err := conn.Write([]byte{c}); err != nil {
					return
				}
				time.Sleep(150 * time.Millisecond)
			}
		},
		"takes no answer": func(conn net.Conn) { _, _ = conn.Write(framed) },
		"asks for ever": func(conn net.Conn) {
			for {
				if _, err := conn.Write(framed); err != nil {
					return
				}
				if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, maxTCP))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most, crowd = 64, 512
				s, _ := server(shop()...)
				b := &backlog{make(chan net.Conn, crowd+1), make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				begin := time.Now()
				go func() { done <- s.serveTCP(ctx, b, most) }()
				var clients sync.WaitGroup
				for range crowd {
					conn := b.connect()
					clients.Go(func() { behave(conn) })
				}
				honest := b.connect()
				go func() { _, _ = honest.Write(framed) }()
				c := miekg.Conn{Conn: honest}
				answer, err := c.ReadMsg()
				took := time.Since(begin)
				t.Logf("the honest one had its answer after %v", took)
				if err != nil || line(answer) != "10.0.1.1" || took > 7*time.Second {
					t.Errorf("got %v, %v after %v", answer, err, took)
				}
				cancel()
				b.Close() // as Serve does
				if err := <-done; err != nil {
					t.Error(err)
				}
				for len(b.conns) > 0 {
					(<-b.conns).Close()
				}
				clients.Wait()
			})
		})
	}
}

// The end does not wait for clients that are silent: see serve.
func TestEnd(t *testing.T) {
	s, _ := server(shop()...)
	address := start(t, s, 8)
	for range 4 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ask(t, address, "tcp", question("db.healthd. A", 0))
}

// A listener that is gone ends the server.
func TestLostListener(t *testing.T) {
	s, _ := server(shop()...)
	ls, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ls.udp.Close()
	if err := s.Serve(t.Context(), ls, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Another program may have the address for one of both only.
func TestListen(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, address := range []string{udp.LocalAddr().String(), tcp.Addr().String()} {
		if _, err := Listen(address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
	}
	if free, err := net.Listen("tcp", udp.LocalAddr().String()); err != nil {
		t.Errorf("TCP was kept: %v", err)
	} else {
		free.Close()
	}
	if _, err := Listen("192.0.2.1:0"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("got %v", err)
	}
	if _, err := Listen("nonsense"); err == nil {
		t.Error("nonsense is an address")
	}
}

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

// FuzzServe answers any packet, also a second time, with what can be read.
func FuzzServe(f *testing.F) {
	for _, h := range hostile(f) {
		f.Add(h.packet, true)
	}
	for _, q := range []string{"web.shop.healthd. SRV", "api.healthd. A", "_http._tcp.web.shop.healthd. ANY", "healthd. SOA"} {
		f.Add(packed(f, question(q, 1232)), false)
		f.Add(packed(f, question(q, 0)), true)
	}
	s, _ := server(append(shop(), many("large/web", 2000)...)...)
	udp, tcp := newWriter(maxUDP), newWriter(maxTCP)
	f.Fuzz(func(t *testing.T, packet []byte, overTCP bool) {
		w, limit := udp, maxUDP
		if overTCP {
			w, limit = tcp, maxTCP
		}
		answer := s.respond(w, packet, overTCP)
		if answer == nil {
			if len(packet) >= headerLength && packet[2]&0x80 == 0 {
				t.Fatal("no answer")
			}
			return
		}
		m := new(miekg.Msg)
		if err := m.Unpack(answer); err != nil {
			t.Fatalf("%v: % x", err, answer)
		}
		if !m.Response || len(answer) > limit || m.Id != binary.BigEndian.Uint16(packet) {
			t.Fatalf("%d bytes: %v", len(answer), m)
		}
		if !overTCP && m.IsEdns0() == nil && len(answer) > smallUDP {
			t.Fatalf("%d bytes for a client without EDNS", len(answer))
		}
		for _, rr := range m.Answer {
			if rr.Header().Name != m.Question[0].Name {
				t.Fatalf("%v answers %v", rr, m.Question)
			}
		}
	})
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
