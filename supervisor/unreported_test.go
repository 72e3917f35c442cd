package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// A container loses its spec in the middle of a restart, and its watcher stops reporting
// it. healthd finishes the restart and then leaves it alone.
func TestUnwantedDuringARestart(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.stopTakes = 10 * time.Second
		h.must(h.Restart(h.t.Context(), "c1"))
		time.Sleep(time.Second)
		deliver := h.engine.deliver
		h.engine.mu.Lock()
		h.engine.deliver = func(runtime.Update) {}
		h.engine.mu.Unlock()
		h.reload(nil)
		deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1", Unwanted: true})
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); !slices.Equal(calls, []string{"stop c1 30s", "start c1"}) {
			h.t.Errorf("calls %v", calls)
		}
		if _, err := h.Board().Find("c1"); err == nil {
			h.t.Error("it is still supervised")
		}
	})
}

// It is also removed meanwhile: healthd forgets it.
func TestUnwantedAndRemovedDuringARestart(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.exit("c1", 1)
		time.Sleep(time.Second)
		h.engine.exit("c1", 1) // its back-off is running
		h.reload(nil)
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1", Unwanted: true})
		h.engine.delete("c1")
		time.Sleep(time.Hour)
		if _, err := h.Board().Find("c1"); err == nil {
			h.t.Error("it is still supervised")
		}
	})
}

// Its run ends by itself before healthd has stopped it, and its watcher does not say so.
// healthd looks before it stops it, and finishes the restart.
func TestUnwantedAndEndedDuringARestart(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		time.Sleep(10 * time.Second)
		h.must(h.Restart(h.t.Context(), "c1"))
		time.Sleep(time.Second) // within its drain
		h.reload(nil)
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1", Unwanted: true})
		h.engine.endRun("c1", 1)
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); !slices.Equal(calls, []string{"start c1"}) {
			h.t.Errorf("calls %v", calls)
		}
		if _, err := h.Board().Find("c1"); err == nil {
			h.t.Error("it is still supervised")
		}
	})
}
