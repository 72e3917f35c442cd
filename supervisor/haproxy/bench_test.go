package haproxy

import (
	"healthd/e2e/ports"

	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
)

// BenchmarkPush is the time from a change on the board until HAProxy has it, its answer
// read; a container becomes unready and ready in turn, beside others.
func BenchmarkPush(b *testing.B) {
	for _, others := range []int{2, 999} {
		b.Run(fmt.Sprintf("%d-servers", others+1), func(b *testing.B) {
			h := startBenched(b, "backend web\n")
			e := h.newSupervisor()
			e.pushed = make(pushTimes, 1)
			e.startDaemon(h.socket())
			e.addMany("web", others)
			e.set("c1", "S", "up")
			patience.Until(b, "all are there", func() error { return h.expectServers(others + 1) })
			benchPush(b, e, "web")
		})
	}
}

func benchPush(b *testing.B, e *fakeSupervisor, backend string) {
	pushed := e.pushed.(pushTimes)
	pushed.drain()
	var took []time.Duration
	before := cpuTime(b)
	for b.Loop() {
		e.setIn(backend, "c1", "127.0.0.1", e.b.port("S"), [...]string{"down", "up"}[len(took)%2])
		took = append(took, <-pushed)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
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
			h := startBenched(b, config)
			e := h.startPushing()
			e.addMany("web", servers)
			patience.Until(b, "all are there", func() error { return h.expectServers(servers) })
			benchFullSync(b, h, servers)
		})
	}
}

func benchFullSync(b *testing.B, h *balancer, servers int) {
	var total time.Duration
	before := cpuTime(b)
	for b.Loop() {
		h.kill()
		h.start()
		begun := time.Now()
		patience.Until(b, "all are there", func() error { return h.expectServers(servers) })
		total += time.Since(begun)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "again-ms")
}

// BenchmarkPoll is what a look at 1,000 servers costs each second that nothing happens.
func BenchmarkPoll(b *testing.B) {
	h := startBenched(b, "backend web\n")
	e := h.startPushing()
	e.addMany("web", 1000)
	patience.Until(b, "all are there", func() error { return h.expectServers(1000) })
	benchPoll(b, e)
}

func benchPoll(b *testing.B, e *fakeSupervisor) {
	l := newInstance(e.h, e.h.instances[0].socket)
	sync := func() {
		if err := l.sync(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
	for sync(); l.pause(time.Now()) < aliveInterval; { // until nothing is left to do
		sync()
	}
	before := cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range l.backends {
			s.pollAt, s.notBefore = time.Time{}, time.Time{}
		}
		for l.pause(time.Now()) < time.Millisecond {
			sync()
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkMany is the same as the others, with 10,000 servers in 50 backends.
func BenchmarkMany(b *testing.B) {
	const backends, each = 50, 200
	var config strings.Builder
	for n := range backends {
		fmt.Fprintf(&config, "backend b%d\n", n)
	}
	h := startBenched(b, config.String())
	e := h.newSupervisor()
	e.pushed = make(pushTimes, 1)
	e.startDaemon(h.socket())
	for n := range backends {
		e.addMany(fmt.Sprintf("b%d", n), each)
	}
	e.setIn("b0", "c1", "127.0.0.1", h.port("S"), "up")
	const servers = backends*each + 1
	patience.Until(b, "all are there", func() error { return h.expectServers(servers) })
	b.Run("Push", func(b *testing.B) { benchPush(b, e, "b0") })
	e.setIn("b0", "c1", "127.0.0.1", h.port("S"), "up")
	b.Run("Poll", func(b *testing.B) { benchPoll(b, e) })
	b.Run("FullSync", func(b *testing.B) { benchFullSync(b, h, servers) })
}

// startBenched starts HAProxy with a port, that of the application S, at which it answers the checks of the servers itself: they
// cost this process nothing.
func startBenched(b *testing.B, backends string) *balancer {
	port := ports.Free(b)
	h := startBalancer(b, fmt.Sprintf("frontend checked\n  bind 127.0.0.1:%d\n  mode tcp\n  tcp-request connection reject\n", port)+backends)
	h.ports["S"] = port
	return h
}

// addMany adds so many ready containers to a backend.
func (e *fakeSupervisor) addMany(backend string, n int) {
	e.mu.Lock()
	for i := range n {
		v := newView(backend, fmt.Sprintf("%s-m%d", backend, i), "127.0.0.1", e.b.port("S"), "up")
		e.views[v.Container.Name] = v
	}
	e.mu.Unlock()
	e.updateBoard()
}

// expectServers returns nil when so many servers of all backends are up, by HAProxy's own sums.
func (b *balancer) expectServers(want int) error {
	answer, err := b.try("show stat -1 2 -1")
	if err != nil {
		return err
	}
	header, rows, _ := strings.Cut(answer, "\n")
	act, got := slices.Index(strings.Split(header, ","), "act"), 0
	for line := range strings.Lines(rows) {
		if fields := strings.Split(line, ","); act >= 0 && act < len(fields) {
			n, _ := strconv.Atoi(fields[act])
			got += n
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
