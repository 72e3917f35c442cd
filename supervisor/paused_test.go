package supervisor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// healthd does not restart a container that somebody has paused, except when an operator
// requests it.
func TestPausedIsNotRestarted(t *testing.T) {
	pause := func(h *harness, tell bool) {
		h.engine.mu.Lock()
		c := *h.engine.containers["c1"]
		c.State = runtime.Paused
		h.engine.containers["c1"] = &c
		h.engine.mu.Unlock()
		if tell {
			h.engine.deliver(h.engine.observation("c1"))
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*harness)
		want []string
	}{
		{"while it drains", func(h *harness) {
			h.probes.setResult("c1:1", refused)
			time.Sleep(32 * time.Second)
			pause(h, true)
		}, nil},
		{"while its verdict waits", func(h *harness) {
			_ = h.Hold(context.Background(), "n-c1", time.Now().Add(time.Minute))
			h.probes.setResult("c1:1", refused)
			time.Sleep(40 * time.Second)
			pause(h, true)
		}, nil},
		{"without an event, while its probe fails", func(h *harness) {
			pause(h, false)
			h.probes.setResult("c1:1", refused)
		}, nil},
		{"and shares the network of a container with a new run", func(h *harness) {
			pause(h, false)
			u := h.engine.observation("c1")
			u.Container.NetworkOwner, u.Container.NetworkOwnerStartedAt = "c2", time.Now().Add(time.Second)
			h.engine.deliver(u)
		}, nil},
		{"but an operator requests a restart", func(h *harness) {
			pause(h, true)
			if err := h.Restart(h.t.Context(), "n-c1"); err != nil {
				h.t.Error(err)
			}
		}, []string{"stop c1 30s", "start c1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, webSpec(), func(h *harness) {
				h.engine.run("c1")
				synctest.Wait()
				tt.do(h)
				time.Sleep(10 * time.Minute)
				if calls := h.engine.calls(); !slices.Equal(calls, tt.want) {
					h.t.Errorf("calls %v, want %v", calls, tt.want)
				}
			})
		})
	}
}

// The event of a pause is lost, and healthd's look before a stop finds the container paused. Its
// watcher knows nothing of that, so that the end of the pause is no news to it.
func TestPauseThatOnlyALookHasShown(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		setState := func(s runtime.State) {
			h.engine.mu.Lock()
			defer h.engine.mu.Unlock()
			c := *h.engine.containers["c1"]
			c.State = s
			h.engine.containers["c1"] = &c
		}
		setState(runtime.Paused)
		h.probes.setResult("c1:1", refused)
		time.Sleep(time.Minute)
		if s := h.view("c1").State.Engine.State; s != runtime.Paused {
			h.t.Fatalf("it is %s", s)
		}
		setState(runtime.Running)
		h.probes.setResult("c1:1", success)
		h.sendSynced()
		synctest.Wait()
		if s := h.view("c1").State.Engine.State; s != runtime.Running {
			h.t.Errorf("after the next list it is %s", s)
		}
		inspections := h.engine.inspections()
		h.sendSynced()
		synctest.Wait()
		if n := h.engine.inspections() - inspections; n != 0 {
			h.t.Errorf("inspected %d times after a list that showed nothing new", n)
		}
	})
}
