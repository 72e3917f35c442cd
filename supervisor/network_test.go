package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container is connected and disconnected while it runs and a probe waits, and a reload names another
// network. Only its address in the network of the spec counts, and no answer of an older one.
func TestNetworksThatChange(t *testing.T) {
	spec := webSpec()
	spec.Network = "front"
	play(t, spec, func(h *harness) {
		h.probes.setHanging("c1:1")
		h.engine.run("c1")
		synctest.Wait()
		inNetworks := func(front, back string) {
			c := *h.engine.containers["c1"]
			c.Address, c.Network, c.Networks = back, "back", []runtime.NetworkAddress{{Network: "back", Address: back}}
			if front != "" {
				c.Networks = append(c.Networks, runtime.NetworkAddress{Network: "front", Address: front})
			}
			h.engine.containers["c1"] = &c
			h.engine.deliver(h.engine.observation("c1"))
		}
		name := func(network string) {
			next := *spec
			next.Network = network
			h.must(h.Reload(h.t.Context(), func(runtime.Traits) (*core.Spec, error) { return &next, nil }, core.Guard{}))
		}
		for _, tt := range []struct {
			what      string
			do        func()
			want      string // where it is probed and published
			disturbed bool   // the probe under way ends
		}{
			{"connected", func() { inNetworks("10.0.1.1", "10.0.2.1") }, "10.0.1.1", true},
			{"another network's address changes", func() { inNetworks("10.0.1.1", "10.0.2.2") }, "10.0.1.1", false},
			{"disconnected", func() { inNetworks("", "10.0.2.2") }, "", true},
			{"connected anew", func() { inNetworks("10.0.1.2", "10.0.2.2") }, "10.0.1.2", true},
			{"a reload names the other", func() { name("back") }, "10.0.2.2", true},
			{"a reload names the same", func() { name("back") }, "10.0.2.2", false},
			{"a reload names none", func() { name("") }, "10.0.2.2", false},
			{"a reload names one that it is not in", func() { name("third") }, "", true},
		} {
			before := versionOfProbes(h)
			tt.do()
			pass(11 * time.Second)
			v := h.view("c1")
			if at := h.probes.address("c1:1"); at != tt.want || v.Container.Address != tt.want || (versionOfProbes(h) != before) != tt.disturbed {
				h.t.Errorf("%s: probed at %q, published at %q, want %q; probes %d, then %d", tt.what, at, v.Container.Address, tt.want, before, versionOfProbes(h))
			}
			if !tt.disturbed {
				continue
			}
			_ = h.send(context.Background(), &probeAnswer{id: "c1", run: v.State.Run.ID, version: before, probe: core.Liveness, result: refused})
			synctest.Wait()
			if y := h.view("c1").State.Health.Probes[core.Liveness]; y.Outcome == prober.Failure {
				h.t.Errorf("%s: an answer of before counts: %+v", tt.what, y)
			}
		}
	})
}

// versionOfProbes changes when the probes of c1 are built anew.
func versionOfProbes(h *harness) (version uint64) {
	_ = h.send(context.Background(), inspectLoop(func(l *loop) { version = l.entries["c1"].probesVersion }))
	synctest.Wait()
	return version
}
