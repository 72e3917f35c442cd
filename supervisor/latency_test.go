package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// What a service has counted stays when one of its containers goes, and goes with the last one.
func TestLatencyOutlivesAContainer(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		for _, id := range []string{"c1", "c2"} {
			h.create(runtime.Container{ID: id, Name: id, Labels: map[string]string{core.ComposeProject: "shop"}})
			h.probes.setResult(id+":1", prober.Result{Outcome: prober.Success, Latency: 30 * time.Millisecond})
			h.probes.setResult(id+":2", refused)
			h.engine.run(id)
		}
		pass(35 * time.Second)
		count := func(probe core.ProbeType) (n uint64, sum float64) {
			found, ok := h.Board().Latency("web", "shop", probe)
			if !ok {
				h.t.Fatal("the service is not there")
			}
			for _, k := range found.Counts {
				n += k
			}
			return n, found.Sum
		}
		liveness := func(id string) uint64 {
			return uint64(h.view(id).State.Totals.Outcomes[core.Liveness][prober.Success])
		}
		both := liveness("c1") + liveness("c2")
		n, sum := count(core.Liveness)
		if l, _ := h.Board().Latency("web", "shop", core.Liveness); n != both || n < 6 || l.Counts[3] != n || sum < 0.029*float64(n) || sum > 0.031*float64(n) {
			h.t.Errorf("%d probes, %v, %v s; the containers have %d", n, l.Counts, sum, both)
		}
		if n, _ := count(core.Readiness); n != 0 {
			h.t.Errorf("%d failed probes have a latency", n)
		}
		h.remove("c1")
		synctest.Wait()
		if after, _ := count(core.Liveness); after != n {
			h.t.Errorf("%d once one has gone, it was %d", after, n)
		}
		h.remove("c2")
		synctest.Wait()
		if _, found := h.Board().Latency("web", "shop", core.Liveness); found {
			h.t.Error("a service without containers is still there")
		}
	})
}

// Containers are counted where they belong now.
func TestLatencyFollowsTheService(t *testing.T) {
	b, s, other := &Board{}, &slot{}, &slot{}
	has := func(service string) bool {
		_, found := b.Latency(service, "", core.Liveness)
		return found
	}
	count := func(service string) (n uint64) {
		h, _ := b.Latency(service, "", core.Liveness)
		return h.Counts[0]
	}
	s.latency.observe(core.Liveness, 0) // of no service yet
	b.put(other, published("web-2", "web", false))
	for range 2 { // the second one changes nothing
		b.put(s, published("web-1", "web", false))
		s.latency.observe(core.Liveness, time.Millisecond)
	}
	b.put(s, published("web-1", "shop", true))
	s.latency.observe(core.Liveness, time.Millisecond)
	if count("web") != 2 || count("shop") != 1 {
		t.Errorf("web has %d, want 2; shop has %d, want 1", count("web"), count("shop"))
	}
	b.put(s, &core.View{Container: s.view.Load().Container, Invalid: "labels", State: core.NewState()})
	s.latency.observe(core.Liveness, 0)
	if has("shop") || !has("web") {
		t.Errorf("shop, which has no container, is there: %v; web: %v", has("shop"), has("web"))
	}
	b.remove(s)
	b.remove(other)
	for of := range b.latencies.byService.all {
		t.Errorf("%v is left", of)
	}
}
