package haproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPush is the time from a change on the board until HAProxy has it, its answer
// read; a container becomes unready and ready in turn, beside others.
func BenchmarkPush(b *testing.B) {
	for _, others := range []int{2, 999} {
		b.Run(fmt.Sprintf("%d-servers", others+1), func(b *testing.B) {
			h := startBalancer(b, "backend web\n")
			e := h.newSupervisor()
			pushed := make(pushTimes, 1)
			e.pushed = pushed
			e.startDaemon(h.socket())
			e.addMany(others)
			e.set("c1", "A", "up")
			eventually(b, "all are there", func() error { return h.expectServers("web", others+1) })
			pushed.drain()
			var took []time.Duration
			before := cpuTime(b)
			for b.Loop() {
				e.set("c1", "A", [...]string{"down", "up"}[len(took)%2])
				took = append(took, <-pushed)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// pushTimes is the histogram of pushes, as what they took one by one.
type pushTimes chan time.Duration

func (p pushTimes) Observe(seconds float64) {
	select {
	case p <- time.Duration(seconds * float64(time.Second)):
	default: // of the others
	}
}

func (p pushTimes) drain() {
	for {
		select {
		case <-p:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// BenchmarkFullSync is the time that a new HAProxy needs to get 1,000 servers,
// from the moment that it listens.
func BenchmarkFullSync(b *testing.B) {
	const servers = 1000
	for name, config := range map[string]string{
		"dynamic": "backend web\n",
		"slots": "backend web\n  default-server check inter 1h agent-check agent-addr 127.0.0.1 agent-port 9 agent-inter 1h weight 100\n" +
			fmt.Sprintf("  server-template web- %d 0.0.0.0:0 disabled\n", servers),
	} {
		b.Run(name, func(b *testing.B) {
			h := startBalancer(b, config)
			e := h.startPushing()
			e.addMany(servers)
			eventually(b, "all are there", func() error { return h.expectServers("web", servers) })
			var total time.Duration
			for b.Loop() {
				h.kill()
				h.start()
				begun := time.Now()
				eventually(b, "all are there", func() error { return h.expectServers("web", servers) })
				total += time.Since(begun)
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "again-ms")
		})
	}
}

// BenchmarkPoll is what a look at 1,000 servers costs each second that nothing happens.
func BenchmarkPoll(b *testing.B) {
	h := startBalancer(b, "backend web\n")
	e := h.startPushing()
	e.addMany(1000)
	eventually(b, "all are there", func() error { return h.expectServers("web", 1000) })
	l := newInstance(e.h, e.h.instances[0].socket)
	l.members = members(e.Board().Views())
	before := cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		l.needsFullSync = true
		shows, err := l.poll(b.Context(), l.due(time.Time{}))
		if err != nil {
			b.Fatal(err)
		}
		p := l.plan("web", shows["web"])
		p.compute(l.members["web"])
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// addMany adds so many ready containers, to which no checks go.
func (e *fakeSupervisor) addMany(n int) {
	e.mu.Lock()
	for i := range n {
		v := newView("web", fmt.Sprintf("m%d", i), netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}).String(), 80, "up")
		e.views[v.Container.Name] = v
	}
	e.mu.Unlock()
	e.updateBoard()
}

// expectServers returns nil when HAProxy shows so many servers to which traffic would go.
func (b *balancer) expectServers(backend string, want int) error {
	answer, err := b.try("show stat " + backend + " 4 -1")
	if err != nil {
		return err
	}
	got := 0
	for line := range strings.Lines(answer) {
		if strings.HasPrefix(line, backend+",") && !strings.Contains(line, ",MAINT,") && !strings.Contains(line, "(agent)") {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d servers, want %d", got, want)
	}
	return nil
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
