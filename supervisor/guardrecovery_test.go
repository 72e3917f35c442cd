package supervisor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A container that an earlier daemon restarted counts as down until it is ready again or
// its startup budget is over.
func TestAnOutageOutlivesTheDaemon(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ready bool // a, when the daemon is back
		past  time.Duration
		waits bool
	}{
		{"not ready yet", false, time.Second, true},
		{"ready again", true, 5500 * time.Millisecond, false},
		{"has had its time", false, 10 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeHost(t, slowReadySpec(core.Group{Name: "web"}))
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				e.engine.run("a")
				e.engine.run("b")
				e.sleep(6500 * time.Millisecond)
				e.probes.setResult("a:2", refused)
				e.engine.onStopOf = func(id string) { e.probes.setResult(id+":2", success) }
				if !tt.ready {
					e.probes.setResult("a:3", refused)
				}
				e.sleep(time.Second)
				if s := e.view("a").State; s.RestartCount() != 1 || s.Conditions.Ready.Status {
					t.Fatalf("a: %+v", s)
				}
				if !tt.ready {
					e.kill()
				}
				time.Sleep(tt.past)
				synctest.Wait()
				e.kill()
				e.probes.setResult("b:2", refused)
				e.startDaemon(runtime.ReplayComplete, 0, false)
				e.sleep(1500 * time.Millisecond)
				w := e.view("b").Waiting()
				if waits := w != nil && w.Reason == core.WaitGroupLimit; waits != tt.waits {
					t.Errorf("b waits for %+v, want that: %v; a: %+v", w, tt.waits, e.view("a").State)
				}
				e.sleep(time.Minute)
				if e.view("b").State.RestartCount() == 0 || e.stored["a"].Down != (core.Outage{}) {
					t.Errorf("b waits for ever, or a is kept as down: %+v", e.stored["a"].Down)
				}
				e.shutDown()
			})
		})
	}
}

// Restarts that earlier daemons granted count for the budget, also those of containers
// that were removed or re-created since.
func TestRestartBudgetOutlivesTheDaemon(t *testing.T) {
	for _, then := range []string{"", "removed", "created anew"} {
		t.Run(then, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeHost(t, slowReadySpec(core.Group{}))
				e.guard = core.Guard{MaxRestarts: 3, Window: time.Minute}
				e.startDaemon(runtime.ReplayUnknown, 0, false)
				for _, id := range []string{"a", "b", "c"} {
					e.engine.run(id)
				}
				e.sleep(6500 * time.Millisecond)
				e.engine.onStopOf = func(id string) { e.probes.setResult(id+":2", success) }
				begun := time.Now()
				for range 2 {
					e.probes.setResult("a:2", refused)
					e.sleep(1500 * time.Millisecond)
				}
				if n := e.view("a").State.RestartCount(); n != 2 {
					t.Fatalf("a has %d restarts", n)
				}
				e.kill()
				e.startDaemon(runtime.ReplayComplete, 0, false)
				e.sleep(time.Second)
				e.replace("a", then)
				e.probes.setResult("b:2", refused)
				e.sleep(1500 * time.Millisecond)
				e.kill()
				e.probes.setResult("c:2", refused)
				e.startDaemon(runtime.ReplayComplete, 0, false)
				e.sleep(2 * time.Second)
				w := e.view("c").Waiting()
				if w == nil || w.Reason != core.WaitRestartBudget || w.Until.Sub(begun) > time.Minute+time.Second {
					t.Fatalf("c waits for %+v; calls %v", w, e.engine.calls())
				}
				e.sleep(time.Until(w.Until.Add(2 * time.Second)))
				if e.view("c").State.RestartCount() == 0 {
					t.Error("c was never restarted")
				}
				e.shutDown()
			})
		})
	}
}

// replace removes a container. When then says so, it creates another one in its place.
func (e *fakeHost) replace(id, then string) {
	if then == "" {
		return
	}
	e.engine.delete(id)
	e.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
	if then == "created anew" {
		e.engine.names[id+"2"] = "n-" + id
		e.engine.run(id + "2")
	}
}

// Labels are written by whoever may start containers. They must not block a group for as
// long as they like.
func TestNobodyHoldsItsGroupUpForLong(t *testing.T) {
	const days = 300 * 24 * time.Hour
	for _, tt := range []struct {
		name string
		evil func(*core.Spec)
	}{
		{"initial delay", func(s *core.Spec) { s.Probes[core.Readiness].InitialDelay = days }},
		{"drain", func(s *core.Spec) { s.Publish.Drain = days }},
		{"back-off", func(s *core.Spec) { s.Backoff = core.Backoff{Initial: days, Max: days, ResetAfter: days} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, slowReadySpec(core.Group{Name: "shop/web"}))
				defer h.close(t)
				evil := slowReadySpec(core.Group{Name: "shop/web"})
				tt.evil(evil)
				h.specs["n-c"] = evil
				startReplicas(h, 3)
				h.engine.exit("c", 1) // the first start comes at once
				time.Sleep(6 * time.Second)
				h.failLiveness("c")
				begun := time.Now()
				h.failLiveness("a", "b")
				for _, after := range []time.Duration{maxOutage - 10*time.Second, maxOutage + 20*time.Second} {
					time.Sleep(time.Until(begun.Add(after)))
					synctest.Wait()
					calls := strings.Join(h.engine.calls(), ", ")
					a, b := strings.Contains(calls, "start a"), strings.Contains(calls, "start b")
					if want := after > maxOutage; a != want || b != want {
						t.Errorf("after %v: %s", after, calls)
					}
				}
				if slices.Contains(h.engine.calls(), "stop c 30s") && tt.name == "drain" {
					t.Error("c was stopped within its drain")
				}
			})
		})
	}
}
