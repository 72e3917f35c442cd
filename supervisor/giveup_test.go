package supervisor

import (
	"errors"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The count of restarts and what healthd has given up outlive daemons.
func TestGiveUpOutlivesDaemons(t *testing.T) {
	spec := plainSpec(core.Always)
	spec.GiveUp = core.GiveUp{Restarts: 2, Within: time.Hour}
	playHost(t, spec, func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.run("c2")
		crash := func() {
			h.sleep(time.Minute)
			h.engine.exit("c1", 1)
			h.sleep(time.Minute)
		}
		newDaemon := func() {
			h.kill()
			h.sleep(time.Second)
			h.startDaemon(runtime.ReplayComplete, 0)
			h.sleep(time.Minute)
		}
		crash()
		newDaemon()
		crash()
		newDaemon()
		if !h.running("c1") {
			h.t.Fatal("it is not restarted twice")
		}
		crash()
		for range 2 {
			if v := h.view("c1"); h.running("c1") || v.Waiting() == nil || v.Waiting().Reason != core.WaitGaveUp {
				h.t.Fatalf("running %v, waits for %+v", h.running("c1"), v.Waiting())
			}
			newDaemon()
		}
		daemon, _ := h.current()
		if err := daemon.Resume(h.t.Context(), "n-c1"); err != nil {
			h.t.Fatal(err)
		}
		h.sleep(time.Second)
		if v := h.view("c1"); !h.running("c1") || v.Waiting() != nil {
			h.t.Errorf("after a resume: running %v, waits for %+v", h.running("c1"), v.Waiting())
		}
		crash()
		if !h.running("c1") {
			h.t.Error("the count goes on after a resume")
		}
	})
}

// Where healthd only observes, nothing reaches the engine, whoever asks, and others in the group and the
// host's budget are not kept from their restarts.
func TestObservedContainer(t *testing.T) {
	observed, enforced := slowReadySpec(core.Group{}), slowReadySpec(core.Group{})
	observed.Observe = true
	playWith(t, nil, func(c *Config) {
		c.Guard = core.Guard{MaxRestarts: 1, Window: time.Hour}
	}, func(h *harness) {
		h.specs = map[string]*core.Spec{"n-a": observed, "n-b": enforced}
		h.engine.run("a")
		h.engine.run("b")
		h.sendSynced()
		time.Sleep(time.Minute)
		h.failLiveness("a", "b")
		pass(time.Hour)
		if err := h.Restart(h.t.Context(), "n-a"); !errors.Is(err, ErrObserved) {
			h.t.Errorf("restart: %v", err)
		}
		if w := h.view("a").Waiting(); w == nil || w.Reason != core.WaitObserved {
			h.t.Errorf("waits for %+v", w)
		}
		for _, call := range h.engine.calls() {
			if call != "stop b 30s" && call != "start b" {
				h.t.Errorf("call %s", call)
			}
		}
		if len(h.engine.calls()) == 0 {
			h.t.Error("the other container is not restarted")
		}
	})
}
