package fleet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/fleet/etcdtest"
)

var benchHosts = flag.Int("bench-hosts", 20, "how many hosts BenchmarkHosts has")

// BenchmarkHosts has hosts with a hundred containers each share them over three real members of etcd, in one process: all of
// them watch all. Each round is one change of readiness, until another host shows it.
//
//	go test ./supervisor/fleet -run '^$' -bench Hosts -benchtime 300x -args -bench-hosts=100
func BenchmarkHosts(b *testing.B) {
	const each = 100
	hosts := *benchHosts
	cluster, err := etcdtest.Start(b.TempDir(), etcdtest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Close)
	began := time.Now()
	var all []*benchHost
	for i := range hosts {
		all = append(all, startBenchHost(b, cluster.Endpoints, fmt.Sprintf("h%d", i), each))
	}
	for _, h := range all {
		for n := 0; n != (hosts-1)*each; {
			n = 0
			for range h.board.RemoteMembers() {
				n++
			}
			if time.Since(began) > 5*time.Minute {
				b.Fatalf("%s shows %d members", h.name, n)
			}
			time.Sleep(time.Millisecond)
		}
	}
	joined := time.Since(began)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		from, to := all[rand.IntN(hosts)], all[n%hosts]
		if from == to {
			to = all[(n+1)%hosts]
		}
		i := rand.IntN(each)
		begin := time.Now()
		want := from.flip(i)
		id := from.name + "/" + from.id(i)
		for {
			changed := to.board.Changed()
			if m, ok := to.board.Member(id); ok && m.Ready == want {
				break
			}
			<-changed
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "ms-p50")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(joined.Seconds(), "s-join")
	b.ReportMetric(float64(hosts*each)/joined.Seconds(), "joins/s")
}

// benchHost is a host of the benchmark.
type benchHost struct {
	*daemon
	name  string
	views []*core.View
}

func startBenchHost(b *testing.B, endpoints []string, name string, containers int) *benchHost {
	d := &daemon{t: b, was: map[string]bool{}}
	h := &benchHost{daemon: d, name: name}
	d.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}})
	d.config = Config{
		Endpoints: endpoints, Prefix: "/bench/", Host: name, Advertise: netip.MustParseAddr("10.0.0.9"), TTL: 10 * time.Second, StateDir: b.TempDir(), Journal: d,
		AddressOf: func(*core.View) (netip.Addr, int) { return netip.MustParseAddr("10.0.0.9"), 80 },
	}
	for i := range containers {
		d.has(fmt.Sprintf("c%d", i), stateReady)
		h.views = append(h.views, d.board.ByID(h.id(i)))
	}
	d.start()
	return h
}

func (h *benchHost) id(i int) string { return fmt.Sprintf("%064x", fmt.Sprintf("c%d", i)) }

// flip makes a container ready that was not, or the other way.
func (h *benchHost) flip(i int) (ready bool) {
	v := *h.views[i]
	ready = !v.State.Conditions.Ready.Status
	kept := *v.State.Kept
	kept.Conditions.Ready.Status = ready
	v.State.Kept = &kept
	h.views[i] = &v
	h.board.Show(&v)
	return ready
}
