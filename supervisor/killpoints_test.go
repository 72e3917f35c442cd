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
	"liveness fails": func(e *fakeHost) {
		e.probes.setResult("c1:2", refused)
	},
	"crash": func(e *fakeHost) { e.engine.exit("c1", 1) },
	"restart asked for": func(e *fakeHost) {
		if daemon, _ := e.current(); daemon != nil {
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
	for name, way := range restartCauses {
		writes, calls := 0, 0
		synctest.Test(t, func(t *testing.T) { writes, calls = restartWithKill(t, way, killPoint{}) })
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
					synctest.Test(t, func(t *testing.T) { restartWithKill(t, way, at) })
				})
			}
		}
	}
}

// restartWithKill causes a restart, kills the daemon at that point and checks the
// outcome.
func restartWithKill(t *testing.T, way func(*fakeHost), at killPoint) (writes, calls int) {
	e := newFakeHost(t, restartSpec())
	e.engine.stopTakes = 50 * time.Millisecond
	e.killAfterWrite, e.killBeforeCall, e.killAfterCall = at.afterWrite, at.beforeCall, at.afterCall
	e.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
	e.engine.onStop = func() { e.probes.setResult("c1:2", prober.Result{Outcome: prober.Success}) } // the new run is healthy
	e.startDaemon(runtime.ReplayUnknown, 0, false)
	e.engine.run("c1")
	e.sleep(2500 * time.Millisecond)
	if daemon, _ := e.current(); daemon != nil || at.replay != runtime.ReplayUnknown { // without a daemon and with ReplayUnknown nothing would tell of the cause
		way(e)
	}
	e.sleep(5 * time.Second)
	e.mu.Lock()
	writes, calls = e.writes, e.calls
	e.mu.Unlock()
	if daemon, _ := e.current(); daemon == nil {
		e.startNextDaemon(at)
	}
	e.checkOutcome(at)
	e.shutDown()
	return writes, calls
}

// sleep lets d go by, or less when the daemon is killed.
func (e *fakeHost) sleep(d time.Duration) {
	synctest.Wait()
	daemon, killed := e.current()
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
func (e *fakeHost) startNextDaemon(at killPoint) {
	time.Sleep(200 * time.Millisecond)
	if at.replay == runtime.ReplayRestart {
		e.killEngine()
	}
	e.startDaemon(at.replay, at.repeated, false)
	var down time.Duration
	for range 100 {
		synctest.Wait()
		if v := e.view("c1"); v.State.Conditions.Ready.Status && !e.running("c1") {
			e.t.Error("ready while it is stopped")
		}
		if !e.running("c1") {
			down += 100 * time.Millisecond
		}
		time.Sleep(100 * time.Millisecond)
	}
	if down > 2*time.Second {
		e.t.Errorf("down for %v after the new daemon had seen it", down)
	}
}

func (e *fakeHost) checkOutcome(at killPoint) {
	e.t.Helper()
	s, runs := e.view("c1").State, e.engine.runs
	if !e.running("c1") || !s.Conditions.Ready.Status || s.OperatorStopped() {
		e.t.Errorf("in the end: %+v", s)
	}
	most := 2
	if at.replay == runtime.ReplayRestart {
		most = 3 // the end of the engine ends one more run
	}
	if runs > most || e.needlessStarts > 0 {
		e.t.Errorf("%d runs, and started %d times while it ran: %v", runs, e.needlessStarts, e.engine.calls())
	}
	if at == (killPoint{}) && (runs != 2 || s.RestartCount() != 1) {
		e.t.Errorf("no restart: %d runs", runs)
	}
	if n := s.RestartCount(); n > runs-1 || n < runs-2 {
		e.t.Errorf("%d restarts told of %d runs", n, runs)
	}
	if e.probes.results["c1:2"].Outcome != prober.Success {
		e.t.Errorf("its failed liveness was forgotten")
	}
}
