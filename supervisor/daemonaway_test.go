package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A new container inherits from its identity, also when both the removal and the
// creation happened while healthd was away.
func TestRecreatedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeHost(t, plainSpec(core.Always))
		e.startDaemon(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.exit("c1", 1)
		synctest.Wait()
		_ = e.daemon.Hold(t.Context(), "c1", time.Time{})
		synctest.Wait()
		e.kill()
		e.engine.delete("c1")
		e.engine.names["c2"] = "n-c1"
		e.engine.run("c2")
		e.startDaemon(runtime.ReplayComplete, 0, false)
		if s := e.view("c2").State; !s.Lasting.Held || s.RestartCount() != 1 || !s.Lasting.Backoff.Active {
			t.Errorf("held %v, %d restarts, back-off %+v", s.Lasting.Held, s.RestartCount(), s.Lasting.Backoff)
		}
		e.shutDown()
	})
}

// A container that is listed but cannot be inspected yet is not taken for removed.
func TestUnseenIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeHost(t, plainSpec(core.Always))
		e.startDaemon(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.run("c2")
		synctest.Wait()
		e.operatorStop("c1")
		synctest.Wait()
		e.kill()
		e.notInspectable = "c1"
		e.startDaemon(runtime.ReplayComplete, 0, false)
		e.sleep(time.Minute)
		e.engine.deliver(e.engine.observation("c1"))
		e.sleep(time.Minute)
		if s := e.view("c1").State; !s.OperatorStopped() || e.running("c1") {
			t.Errorf("stopped by an operator: %v, runs: %v", s.OperatorStopped(), e.running("c1"))
		}
		e.shutDown()
	})
}

// A daemon calls for a start and is killed before the call returns. The next daemon
// counts the restart, and does not start the container twice.
func TestStartOfADaemonThatHasGone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newFakeHost(t, plainSpec(core.Always))
			e.startDaemon(runtime.ReplayUnknown, 0, false)
			e.engine.run("c1")
			synctest.Wait()
			if lost {
				e.killBeforeCall = 1
			} else {
				e.killAfterCall = 1
			}
			e.engine.exit("c1", 1)
			e.sleep(time.Second)
			e.startDaemon(runtime.ReplayComplete, 0, false)
			e.sleep(time.Minute)
			if n := e.view("c1").State.RestartCount(); n != 1 || !e.running("c1") || e.needlessStarts != 0 {
				t.Errorf("the call was lost: %v; %d restarts, runs %v, %d starts of what ran", lost, n, e.running("c1"), e.needlessStarts)
			}
			e.shutDown()
		})
	}
}

// A container whose first inspection after an engine restart fails counts as ended with
// its engine, like the others.
func TestEndedWithItsEngineSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeHost(t, plainSpec(core.OnFailure))
		e.startDaemon(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.run("c2")
		e.sleep(time.Minute)
		_ = e.daemon.Deliver(t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		e.engine.endRun("c1", 0)
		e.engine.endRun("c2", 0)
		e.notInspectable = "c1"
		e.startEngine()
		e.sleep(time.Second)
		e.engine.deliver(e.engine.observation("c1"))
		e.sleep(time.Minute)
		if !e.running("c1") || !e.running("c2") {
			t.Errorf("c1 runs: %v, c2 runs: %v", e.running("c1"), e.running("c2"))
		}
		e.shutDown()
	})
}

// Somebody stops a container while healthd is away. Hours later the engine ends, too.
func TestStoppedLongBeforeItsEngineEnded(t *testing.T) {
	for _, rebooted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newFakeHost(t, plainSpec(core.Always))
			e.startDaemon(runtime.ReplayUnknown, 0, false)
			for _, id := range []string{"c1", "c2", "c3"} {
				e.engine.run(id)
			}
			e.sleep(time.Minute)
			e.shutDown()
			e.operatorStop("c1")
			time.Sleep(5 * time.Hour)
			e.engine.endRun("c2", 0)
			time.Sleep(30 * time.Second)
			e.killEngine()
			time.Sleep(time.Hour)
			e.startDaemon(runtime.ReplayRestart, 0, rebooted)
			e.sleep(time.Minute)
			if e.running("c1") || !e.running("c2") || !e.running("c3") {
				t.Errorf("rebooted %v: c1 runs: %v, c2 %v, c3 %v", rebooted, e.running("c1"), e.running("c2"), e.running("c3"))
			}
			e.shutDown()
		})
	}
}
