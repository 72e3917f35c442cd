package supervisor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// restartSpec has every step of a restart, and no back-off for the first one.
func restartSpec() *core.Spec {
	spec := probesSpec(time.Second, core.Liveness, core.Readiness)
	spec.Publish.Drain = 500 * time.Millisecond
	spec.Lifecycle.PreStop = &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{"pre_stop"}}}
	return spec
}

// restartCauses lead to a restart of a container that is ready.
var restartCauses = map[string]func(*fakeHost){
	"liveness fails": func(h *fakeHost) {
		h.probes.setResult("c1:2", refused)
	},
	"crash": func(h *fakeHost) { h.engine.exit("c1", 1) },
	"restart requested": func(h *fakeHost) {
		if daemon, _ := h.current(); daemon != nil {
			_ = daemon.Restart(context.Background(), "c1") // fails when the daemon is killed
		}
	},
}

// killPoint says where a daemon is killed, and which events the next one gets.
type killPoint struct {
	afterWrite, beforeCall, afterCall int

	replay   runtime.Replay
	repeated int // events that the next daemon gets although the last one has seen them
}

// TestKilledAnywhere kills the daemon at every point of a restart. In the end the
// container runs, as if nothing had happened.
func TestKilledAnywhere(t *testing.T) {
	for name, cause := range restartCauses {
		writes, calls := 0, 0
		synctest.Test(t, func(t *testing.T) { writes, calls = restartWithKill(t, cause, killPoint{}) })
		if writes < 5 || calls < 1 {
			t.Fatalf("%s: %d writes and %d calls are no restart", name, writes, calls)
		}
		for _, after := range []killPoint{
			{replay: runtime.ReplayComplete}, {replay: runtime.ReplayComplete, repeated: 100}, {replay: runtime.ReplayUnknown}, {replay: runtime.ReplayRestart},
		} {
			var all []killPoint
			for n := 1; n <= writes; n++ {
				all = append(all, killPoint{n, 0, 0, after.replay, after.repeated})
			}
			for n := 1; n <= calls; n++ {
				all = append(all, killPoint{0, n, 0, after.replay, after.repeated}, killPoint{0, 0, n, after.replay, after.repeated})
			}
			for _, at := range all {
				t.Run(fmt.Sprintf("%s, %+v", name, at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { restartWithKill(t, cause, at) })
				})
			}
		}
	}
}

// restartWithKill causes a restart, kills the daemon at that point and checks the
// outcome.
func restartWithKill(t *testing.T, cause func(*fakeHost), at killPoint) (writes, calls int) {
	h := newFakeHost(t, restartSpec())
	h.engine.stopTakes = 50 * time.Millisecond
	h.killAfterWrite, h.killBeforeCall, h.killAfterCall = at.afterWrite, at.beforeCall, at.afterCall
	h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
	h.engine.onStop = func() { h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success}) } // the new run is healthy
	h.startDaemon(runtime.ReplayUnknown, 0)
	h.engine.run("c1")
	h.sleep(2500 * time.Millisecond)
	if daemon, _ := h.current(); daemon != nil || at.replay != runtime.ReplayUnknown { // without a daemon and with ReplayUnknown nothing would tell of the cause
		cause(h)
	}
	h.sleep(5 * time.Second)
	h.mu.Lock()
	writes, calls = h.writes, h.calls
	h.mu.Unlock()
	if daemon, _ := h.current(); daemon == nil {
		h.startNextDaemon(at)
	}
	h.checkOutcome(at)
	h.shutDown()
	return writes, calls
}

// sleep lets d go by, or less when the daemon is killed.
func (h *fakeHost) sleep(d time.Duration) {
	synctest.Wait()
	daemon, killed := h.current()
	if daemon == nil {
		return
	}
	select {
	case <-killed:
	case <-time.After(d):
	}
	synctest.Wait()
}

// startNextDaemon starts the next daemon and checks how long the container stays down.
func (h *fakeHost) startNextDaemon(at killPoint) {
	time.Sleep(200 * time.Millisecond)
	if at.replay == runtime.ReplayRestart {
		h.killEngine()
	}
	h.startDaemon(at.replay, at.repeated)
	var down time.Duration
	for range 100 {
		synctest.Wait()
		if v := h.view("c1"); v.State.Conditions.Ready.Status && !h.running("c1") {
			h.t.Error("ready while it is stopped")
		}
		if !h.running("c1") {
			down += 100 * time.Millisecond
		}
		time.Sleep(100 * time.Millisecond)
	}
	if down > 2*time.Second {
		h.t.Errorf("down for %v after the new daemon had seen it", down)
	}
}

func (h *fakeHost) checkOutcome(at killPoint) {
	h.t.Helper()
	s, runs := h.view("c1").State, h.engine.runs
	if !h.running("c1") || !s.Conditions.Ready.Status || s.OperatorStopped() {
		h.t.Errorf("in the end: %+v", s)
	}
	most := 2
	if at.replay == runtime.ReplayRestart {
		most = 3 // the end of the engine ends one more run
	}
	if runs > most || h.needlessStarts > 0 {
		h.t.Errorf("%d runs, and started %d times while it ran: %v", runs, h.needlessStarts, h.engine.calls())
	}
	if at == (killPoint{}) && (runs != 2 || s.RestartCount() != 1) {
		h.t.Errorf("no restart: %d runs", runs)
	}
	if n := s.RestartCount(); n > runs-1 || n < runs-2 {
		h.t.Errorf("%d restarts counted for %d runs", n, runs)
	}
	if h.probes.results["c1:2"].Outcome != prober.Success {
		h.t.Errorf("its failed liveness was lost")
	}
}
