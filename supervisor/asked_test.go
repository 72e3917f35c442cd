package supervisor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// Whoever asks for a restart while nobody hears the engine is told so, as an older
// signal may be told later.
func TestNoRestartOfWhatCannotBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		h.tell(runtime.Lost, "", 0)
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); !errors.Is(err, ErrRuntimeLost) {
			t.Errorf("got %v", err)
		}
		h.synced()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if calls := h.engine.madeCalls(); len(calls) != 2 {
			t.Errorf("calls %v", calls)
		}
	})
}

// A restart that somebody asks for in the middle of a docker stop is the newer wish:
// what that stop still does is no other.
func TestRestartAskedDuringAStop(t *testing.T) {
	w := newWorld(t)
	w.silent, w.stopTakes = true, time.Hour
	for _, line := range []string{"0s runs", "10s signalled 15", "15s restart-asked", "20s signalled 9"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	w.endRun(137)
	w.step("", &input{kind: observed})
	if s := &w.state; s.OperatorStopped || s.Restart != ByOperator {
		t.Errorf("stopped by an operator: %v, to be started: %v", s.OperatorStopped, s.Restart)
	}
}
