package dns

import (
	"fmt"
	"net"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/supervisor"
)

// A query about a service of some members, among 10,000 containers. 1,000 members are more than fit by UDP.
func BenchmarkAnswer(b *testing.B) {
	for _, bench := range []struct {
		members  int
		question string
		tcp      bool
	}{
		{3, "web.shop.healthd. A", false},
		{3, "_http._tcp.web.shop.healthd. SRV", false},
		{3, "nobody.shop.healthd. A", false},
		{1000, "web.shop.healthd. A", false},
		{1000, "_http._tcp.web.shop.healthd. SRV", false},
		{1000, "web.shop.healthd. A", true},
		{1000, "_http._tcp.web.shop.healthd. SRV", true},
	} {
		name := fmt.Sprintf("%d members, %s, UDP", bench.members, bench.question)
		longest := maxUDP
		if bench.tcp {
			name, longest = name[:len(name)-3]+"TCP", maxTCP
		}
		b.Run(name, func(b *testing.B) {
			views := many("shop/web", bench.members)
			for i := bench.members; i < 10_000; i++ {
				views = append(views, view(fmt.Sprintf("other-%d", i), fmt.Sprintf("p%d/s", i/10), "10.9.9.9"))
			}
			s, _ := server(views...)
			packet, w := packed(b, question(bench.question, 1232)), newWriter(longest)
			s.respond(w, packet, bench.tcp) // makes the index
			b.ReportAllocs()
			for b.Loop() {
				s.respond(w, packet, bench.tcp)
			}
		})
	}
}

// Queries over the network, one after the other and many at once. The client is in this process.
func BenchmarkQuery(b *testing.B) {
	s, _ := server(many("shop/web", 3)...)
	address := start(b, s, 64)
	b.Run("one after the other", func(b *testing.B) {
		conn := dialUDP(b, address)
		for b.Loop() {
			conn.query(b)
		}
	})
	b.Run("at once", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) {
			conn := dialUDP(b, address)
			for p.Next() {
				conn.query(b)
			}
		})
	})
}

// client asks for the same all the time.
type client struct {
	net.Conn
	packet, answer []byte
}

func dialUDP(b *testing.B, address string) *client {
	conn, err := net.Dial("udp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &client{conn, packed(b, question("_http._tcp.web.shop.healthd. SRV", 1232)), make([]byte, maxUDP)}
}

func (c *client) query(b *testing.B) {
	_ = c.SetDeadline(time.Now().Add(patience.Limit))
	if _, err := c.Write(c.packet); err != nil {
		b.Error(err)
	}
	if _, err := c.Read(c.answer); err != nil {
		b.Error(err)
	}
}

// What the first query after a change waits for, in services of ten.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n, " containers"), func(b *testing.B) {
			views := many("", n)
			for i, v := range views {
				v.Service = fmt.Sprintf("shop/web%d", i/10)
			}
			board := supervisor.NewBoard(synced, views...)
			b.ReportAllocs()
			for b.Loop() {
				newIndex(board.Services())
			}
		})
	}
	b.Run("1000 containers of one service", func(b *testing.B) {
		board := supervisor.NewBoard(synced, many("shop/web", 1000)...)
		b.ReportAllocs()
		for b.Loop() {
			newIndex(board.Services())
		}
	})
}

// A query while the index is stale: who is ready is looked up.
func BenchmarkStale(b *testing.B) {
	for _, n := range []int{3, 1000} {
		b.Run(fmt.Sprint(n, " members"), func(b *testing.B) {
			s, board := server(many("shop/web", n)...)
			x, _ := s.current()
			of := x.nodes["web.shop.healthd."].service
			b.ReportAllocs()
			for b.Loop() {
				of.live(board)
			}
		})
	}
}
