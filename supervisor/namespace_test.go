package supervisor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// observe has the engine report container c1 after a change.
func (h *harness) observe(change func(*runtime.Container)) {
	h.engine.mu.Lock()
	c := *h.engine.containers["c1"]
	change(&c)
	h.engine.containers["c1"] = &c
	h.engine.mu.Unlock()
	h.engine.deliver(h.engine.observation("c1"))
	time.Sleep(11 * time.Second) // every probe is due
	synctest.Wait()
}

// namespace returns what the newest probe of that port was given.
func (h *harness) namespace(port string) *prober.Namespace {
	h.probes.mu.Lock()
	defer h.probes.mu.Unlock()
	return h.probes.namespaces["c1:"+port]
}

func wantClosed(t testing.TB, n *prober.Namespace, want bool) {
	t.Helper()
	handler := prober.Handler{TCPSocket: &prober.TCPSocket{Via: prober.ViaContainer, Port: 1}}
	p, err := prober.New(prober.Config{}).Probe(handler, prober.Target{ID: "c1", Namespace: n})
	if err != nil {
		t.Fatal(err)
	}
	output := p.Ask(t.Context(), time.Second).Output
	if closed := strings.Contains(output, "its run has ended"); closed != want || !closed && !strings.Contains(output, "is not there") {
		t.Errorf("%q, want closed %v", output, want)
	}
}

// The probes of a run share its network namespace, which is closed when the run ends.
func TestNamespaceOfARun(t *testing.T) {
	const nobody = 1 << 29 // no Linux has so many processes
	play(t, webSpec(), func(h *harness) {
		h.engine.beginRun("c1")
		h.observe(func(c *runtime.Container) { c.Pid, c.Address = nobody, "" })
		first := h.namespace("1")
		if first == nil || h.namespace("2") != first {
			h.t.Fatalf("the probes have %v and %v", first, h.namespace("2"))
		}
		wantClosed(h.t, first, false)
		h.observe(func(c *runtime.Container) { c.Address = "127.0.0.9" })
		if h.namespace("1") != first {
			h.t.Error("a new address made another namespace")
		}
		wantClosed(h.t, first, false)

		if _, err := h.Ask(h.t.Context(), "c1", core.Liveness); err != nil {
			h.t.Fatal(err)
		}
		asked := h.namespace("1")
		wantClosed(h.t, asked, true)
		wantClosed(h.t, first, false)

		h.engine.endRun("c1", 1)
		h.observe(func(c *runtime.Container) { c.Pid = 0 })
		wantClosed(h.t, first, true)
		h.engine.beginRun("c1")
		h.observe(func(c *runtime.Container) { c.Pid = nobody + 1 })
		second := h.namespace("1")
		wantClosed(h.t, second, false)
		h.engine.beginRun("c1") // its end was missed
		h.observe(func(c *runtime.Container) { c.Pid = nobody + 2 })
		third := h.namespace("1")
		wantClosed(h.t, second, true)
		wantClosed(h.t, third, false)
		h.engine.delete("c1")
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		wantClosed(h.t, third, true)
	})
}
