package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container that an earlier daemon restarted counts as down until it is ready again or
// its startup budget is over.
func TestOutageOutlivesTheDaemon(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ready bool // a, when the daemon is back
		past  time.Duration
		waits bool
	}{
		{"not ready yet", false, time.Second, true},
		{"ready again", true, 5500 * time.Millisecond, false},
		{"startup budget over", false, 10 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playHost(t, slowReadySpec(core.Group{Name: "web"}), func(h *fakeHost) {
				h.startDaemon(runtime.ReplayUnknown, 0)
				h.engine.run("a")
				h.engine.run("b")
				h.sleep(6500 * time.Millisecond)
				h.probes.setResult("a:2", refused)
				h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
				if !tt.ready {
					h.probes.setResult("a:3", refused)
				}
				h.sleep(time.Second)
				if s := h.view("a").State; s.RestartCount() != 1 || s.Conditions.Ready.Status {
					h.t.Fatalf("a: %+v", s)
				}
				if !tt.ready {
					h.kill()
				}
				pass(tt.past)
				h.kill()
				h.probes.setResult("b:2", refused)
				h.startDaemon(runtime.ReplayComplete, 0)
				h.sleep(1500 * time.Millisecond)
				w := h.view("b").Waiting()
				if waits := w != nil && w.Reason == core.WaitGroupLimit; waits != tt.waits {
					h.t.Errorf("b waits for %+v, want that: %v; a: %+v", w, tt.waits, h.view("a").State)
				}
				h.sleep(time.Minute)
				if h.view("b").State.RestartCount() == 0 || h.stored["a"].Down != (core.Outage{}) {
					h.t.Errorf("b still waits, or a is stored as down: %+v", h.stored["a"].Down)
				}
			})
		})
	}
}

// Restarts that earlier daemons granted count for the budget, also those of containers
// that were removed or re-created since.
func TestRestartBudgetOutlivesTheDaemon(t *testing.T) {
	for _, then := range []string{"", "removed", "re-created"} {
		t.Run(then, func(t *testing.T) {
			playHost(t, slowReadySpec(core.Group{}), func(h *fakeHost) {
				h.guard = core.Guard{MaxRestarts: 3, Window: time.Minute}
				h.startDaemon(runtime.ReplayUnknown, 0)
				for _, id := range []string{"a", "b", "c"} {
					h.engine.run(id)
				}
				h.sleep(6500 * time.Millisecond)
				h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
				began := time.Now()
				for range 2 {
					h.probes.setResult("a:2", refused)
					h.sleep(1500 * time.Millisecond)
				}
				if n := h.view("a").State.RestartCount(); n != 2 {
					h.t.Fatalf("a has %d restarts", n)
				}
				h.kill()
				h.startDaemon(runtime.ReplayComplete, 0)
				h.sleep(time.Second)
				h.replace("a", then)
				h.probes.setResult("b:2", refused)
				h.sleep(1500 * time.Millisecond)
				h.kill()
				h.probes.setResult("c:2", refused)
				h.startDaemon(runtime.ReplayComplete, 0)
				h.sleep(2 * time.Second)
				w := h.view("c").Waiting()
				if w == nil || w.Reason != core.WaitRestartBudget || w.Until.Sub(began) > time.Minute+time.Second {
					h.t.Fatalf("c waits for %+v; calls %v", w, h.engine.calls())
				}
				h.sleep(time.Until(w.Until.Add(2 * time.Second)))
				if h.view("c").State.RestartCount() == 0 {
					h.t.Error("c was never restarted")
				}
			})
		})
	}
}

// replace removes a container. When then says so, it creates another one in its place.
func (h *fakeHost) replace(id, then string) {
	if then == "" {
		return
	}
	h.engine.delete(id)
	h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
	if then == "re-created" {
		h.engine.names[id+"2"] = "n-" + id
		h.engine.run(id + "2")
	}
}

// Labels are written by whoever may start containers. They must not block a group for as
// long as they like.
func TestLabelsCannotBlockAGroup(t *testing.T) {
	const days = 300 * 24 * time.Hour
	for _, tt := range []struct {
		name   string
		change func(*core.Spec)
	}{
		{"initial delay", func(s *core.Spec) { s.Probes[core.Readiness].InitialDelay = days }},
		{"drain", func(s *core.Spec) { s.Publish.Drain = days }},
		{"back-off", func(s *core.Spec) { s.Backoff = core.Backoff{Initial: days, Max: days, ResetAfter: days} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playWith(t, slowReadySpec(core.Group{Name: "shop/web"}), nil, func(h *harness) {
				slow := slowReadySpec(core.Group{Name: "shop/web"})
				tt.change(slow)
				h.specs["n-c"] = slow
				startReplicas(h, 3)
				h.engine.exit("c", 1) // the first start comes at once
				time.Sleep(6 * time.Second)
				h.failLiveness("c")
				began := time.Now()
				h.failLiveness("a", "b")
				for _, after := range []time.Duration{maxOutage - 10*time.Second, maxOutage + 20*time.Second} {
					pass(time.Until(began.Add(after)))
					calls := strings.Join(h.engine.calls(), ", ")
					a, b := strings.Contains(calls, "start a"), strings.Contains(calls, "start b")
					if want := after > maxOutage; a != want || b != want {
						h.t.Errorf("after %v: %s", after, calls)
					}
				}
				if slices.Contains(h.engine.calls(), "stop c 30s") && tt.name == "drain" {
					h.t.Error("c was stopped within its drain")
				}
			})
		})
	}
}
