package supervisor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// Restart fails while healthd has no connection to the engine: an older signal could
// arrive after it.
func TestRestartWhileRuntimeIsLost(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		h.event(runtime.Lost, "", 0)
		synctest.Wait()
		if err := h.Restart(h.t.Context(), "c1"); !errors.Is(err, ErrRuntimeLost) {
			h.t.Errorf("got %v", err)
		}
		h.sendSynced()
		if err := h.Restart(h.t.Context(), "c1"); err != nil {
			h.t.Error(err)
		}
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); len(calls) != 2 {
			h.t.Errorf("calls %v", calls)
		}
	})
}
