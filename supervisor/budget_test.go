package supervisor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestRestartBudget(t *testing.T) {
	playWith(t, slowReadySpec(core.Group{}), func(c *Config) { c.Guard = core.Guard{MaxRestarts: 3, Window: time.Minute} }, func(h *harness) {
		ids := startReplicas(h, 8)
		began := time.Now()
		h.failLiveness(ids...)
		for i, want := range []int{3, 6, 8} {
			pass(time.Until(began.Add(time.Duration(i)*(time.Minute+time.Second) + 30*time.Second)))
			stops := strings.Count(strings.Join(h.engine.calls(), " "), "stop")
			if stops != want {
				h.t.Fatalf("%d restarts after %d minutes, want %d", stops, i, want)
			}
			if left, limited := h.Board().Budget().Remaining(time.Now()); !limited || left != []int{0, 0, 1}[i] {
				h.t.Errorf("after %d minutes %d restarts are left", i, left)
			}
			if left, _ := h.Board().Budget().Remaining(time.Now().Add(time.Hour)); left != 3 {
				h.t.Errorf("in an hour %d restarts are left", left)
			}
			if i > 0 {
				continue
			}
			if n := len(h.journal.reasons("")); n != 1 || h.journal.reasons("")[0] != core.WaitRestartBudget {
				h.t.Errorf("events of the host: %v", h.journal.reasons(""))
			}
			waits := 0
			for _, id := range ids {
				if w := h.view(id).Waiting(); w != nil && w.Reason == core.WaitRestartBudget && time.Until(w.Until) > 0 {
					waits++
				}
			}
			if waits != 5 {
				h.t.Errorf("%d wait for the budget, want 5", waits)
			}
		}
		h.engine.exit("a", 1) // the budget does not limit this
		_ = h.Restart(h.t.Context(), "b")
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			if n := h.view(id).State.RestartCount(); n != 2 {
				h.t.Errorf("%s has %d restarts", id, n)
			}
		}
	})
}

// A container that waits for its group does not use up the budget.
func TestWaitingForAGroupLeavesTheBudget(t *testing.T) {
	playWith(t, slowReadySpec(core.Group{Name: "web"}), func(c *Config) { c.Guard = core.Guard{MaxRestarts: 3, Window: time.Hour} }, func(h *harness) {
		h.specs["n-f"] = slowReadySpec(core.Group{Name: "db"})
		startReplicas(h, 6)
		h.failLiveness("a", "b", "c", "d", "e")
		h.failLiveness("f")
		if w := h.waitReason("f"); w != "" || h.view("f").State.RestartCount() != 1 {
			h.t.Errorf("f waits: %s", w)
		}
	})
}

// healthd restarts no waiting container while the runtime is lost or healthd shuts down.
func TestNoWaitingRestartWhileLostOrShuttingDown(t *testing.T) {
	for _, what := range []string{"lost", "shutdown"} {
		t.Run(what, func(t *testing.T) {
			play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
				startReplicas(h, 2)
				h.failLiveness("a")
				h.failLiveness("b")
				if what == "lost" {
					h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
					pass(time.Hour)
				}
				if calls := h.engine.calls(); slices.Contains(calls, "stop b 30s") {
					h.t.Errorf("calls %v", calls)
				}
				if what == "lost" {
					h.sendSynced()
					pass(time.Second)
					if !slices.Contains(h.engine.calls(), "stop b 30s") {
						h.t.Error("b was not restarted after the return of the engine")
					}
				}
				h.close()
				if calls := h.engine.calls(); what == "shutdown" && slices.Contains(calls, "stop b 30s") {
					h.t.Errorf("calls %v", calls)
				}
			})
		})
	}
}

func TestBudgetEventOnlyWhenAContainerWaits(t *testing.T) {
	playWith(t, slowReadySpec(core.Group{}), func(c *Config) { c.Guard = core.Guard{MaxRestarts: 5, Window: time.Minute} }, func(h *harness) {
		h.failLiveness(startReplicas(h, 5)...)
		time.Sleep(time.Minute)
		for _, reason := range h.journal.reasons("") {
			h.t.Errorf("event %s", reason)
		}
	})
}
