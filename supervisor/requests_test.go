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
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, webSpec())
		defer h.close(t)
		h.sendSynced()
		h.engine.run("c1")
		h.event(runtime.Lost, "", 0)
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); !errors.Is(err, ErrRuntimeLost) {
			t.Errorf("got %v", err)
		}
		h.sendSynced()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); len(calls) != 2 {
			t.Errorf("calls %v", calls)
		}
	})
}
