package supervisor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// Whoever asks for a restart while nobody hears the engine is told so, as an older
// signal may be told later.
func TestNoRestartOfWhatCannotBeHeard(t *testing.T) {
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
