package dns

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"healthd/e2e/patience"
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
		_ = conn.SetReadDeadline(time.Now().Add(patience.Limit))
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
		_ = conn.SetDeadline(time.Now().Add(patience.Limit))
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
	_ = conn.SetDeadline(time.Now().Add(patience.Limit))
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
