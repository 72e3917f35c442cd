package supervisor

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// openProbes returns the probes that were built and not closed.
func (s *fakeProber) openProbes() map[*fakeProbe]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.open)
}

// A probe is closed when its run, address or spec is over: it may keep a connection.
func TestProbesAreClosed(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.beginRun("c1")
		h.observe(func(c *runtime.Container) { c.Pid, c.Address = 7, "127.0.0.9" })
		open := h.probes.openProbes()
		want := func(what string, n int, same bool) {
			h.t.Helper()
			now := h.probes.openProbes()
			if len(now) != n || maps.Equal(now, open) != same {
				h.t.Errorf("%s: %d probes are open, want %d; the same ones: %v", what, len(now), n, maps.Equal(now, open))
			}
			open = now
		}
		want("built", 2, true)
		time.Sleep(time.Minute)
		want("asked again", 2, true)
		h.observe(func(c *runtime.Container) { c.Address = "127.0.0.10" })
		want("another address", 2, false)
		if _, err := h.Ask(h.t.Context(), "c1", core.Liveness); err != nil {
			h.t.Fatal(err)
		}
		want("asked by an operator", 2, true)
		changed := webSpec()
		changed.RestartPolicy = core.Never
		changed.Probes[core.Liveness].Handler = prober.Handler{TCPSocket: &prober.TCPSocket{Port: 3}}
		h.reload(map[string]*core.Spec{"": changed})
		time.Sleep(time.Minute)
		want("another spec", 2, false)
		h.engine.endRun("c1", 1)
		h.observe(func(c *runtime.Container) { c.Pid = 0 })
		want("ended", 0, false)
		h.engine.beginRun("c1")
		h.observe(func(c *runtime.Container) { c.Pid = 8 })
		want("another run", 2, false)
		h.engine.delete("c1")
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		want("removed", 0, false)
	})
}
