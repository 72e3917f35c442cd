package supervisor

import (
	"errors"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// While no daemon runs, the configuration changes: the next one does what a reload would have done, with what the
// journal has of each container. So does a daemon whose container had wrong labels for a while.
func TestDaemonWithAnotherConfiguration(t *testing.T) {
	for _, way := range []string{"a reload", "a new daemon", "wrong labels meanwhile", "a new daemon with wrong labels meanwhile"} {
		t.Run(way, func(t *testing.T) { testAnotherConfiguration(t, way) })
	}
}

func testAnotherConfiguration(t *testing.T, way string) {
	starting, givenUp, held, hooked := plainSpec(core.Always), plainSpec(core.Always), plainSpec(core.Always), plainSpec(core.Always)
	starting.Probes[core.Startup] = tcpProbe(1, time.Second, 1000)
	givenUp.GiveUp = core.GiveUp{Restarts: 1, Within: time.Hour}
	hooked.Lifecycle.PostStart = &prober.LifecycleHandler{Sleep: &prober.Sleep{}} // which the double cannot run
	specs := map[string]*core.Spec{"n-starting": starting, "n-given-up": givenUp, "n-held": held, "n-hooked": hooked}
	playHost(t, nil, func(h *fakeHost) {
		wrong := false
		h.resolve = func(t runtime.Traits) (*core.Spec, error) {
			if wrong {
				return nil, errors.New("wrong")
			}
			return specs[t.Name], nil
		}
		h.probes.setResult("starting:1", refused)
		h.startDaemon(runtime.ReplayUnknown, 0)
		for name := range specs {
			h.engine.run(name[2:])
		}
		h.sleep(time.Minute)
		daemon, _ := h.current()
		_ = daemon.Hold(h.t.Context(), "n-held", time.Time{})
		for _, id := range []string{"given-up", "given-up", "held"} {
			h.engine.exit(id, 1)
			h.sleep(time.Minute)
		}
		if h.running("given-up") || h.running("held") || h.view("starting").State.Conditions.Ready.Status {
			h.t.Fatal("nothing waits")
		}
		reload := func() {
			daemon, _ := h.current()
			_ = daemon.Reload(h.t.Context(), h.resolve, core.Guard{})
			h.sleep(time.Second)
		}
		if way == "wrong labels meanwhile" || way == "a new daemon with wrong labels meanwhile" {
			wrong = true
			reload()
		}
		specs = map[string]*core.Spec{"n-starting": plainSpec(core.Always), "n-given-up": plainSpec(core.Always), "n-held": plainSpec(core.Never), "n-hooked": plainSpec(core.Always)}
		if way == "a new daemon" || way == "a new daemon with wrong labels meanwhile" {
			h.kill()
			h.startDaemon(runtime.ReplayComplete, 0)
		}
		if wrong || way == "a reload" {
			wrong = false
			reload()
		}
		h.sleep(time.Minute)
		daemon, _ = h.current()
		_ = daemon.Resume(h.t.Context(), "n-held")
		h.sleep(time.Minute)
		for _, id := range []string{"starting", "given-up", "hooked"} {
			if v := h.view(id); !v.State.Conditions.Ready.Status {
				_, reason, _ := v.Readiness()
				h.t.Errorf("%s: not ready: %s, waits for %+v", id, reason, v.Waiting())
			}
		}
		if h.running("held") {
			h.t.Error("started, although its policy is Never")
		}
	})
}
