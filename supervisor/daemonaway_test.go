package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A new container inherits from its identity, also when both the removal and the
// creation happened while healthd was away.
func TestRecreatedWhileAway(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.exit("c1", 1)
		synctest.Wait()
		_ = h.daemon.Hold(h.t.Context(), "c1", time.Time{})
		synctest.Wait()
		h.kill()
		h.engine.delete("c1")
		h.engine.names["c2"] = "n-c1"
		h.engine.run("c2")
		h.startDaemon(runtime.ReplayComplete, 0)
		if s := h.view("c2").State; !s.Lasting.Held() || s.RestartCount() != 1 || !s.Lasting.Backoff.Active {
			h.t.Errorf("held %v, %d restarts, back-off %+v", s.Lasting.Held(), s.RestartCount(), s.Lasting.Backoff)
		}
	})
}

// What an engine lists but does not show is on the board beside the containers, until it is shown.
func TestUnseenIsOnTheBoard(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		unseen := []runtime.Unseen{{Summary: runtime.Summary{ID: "c1", Name: "web"}, Err: errors.New("no such layer")}}
		count := func() (n int) {
			synctest.Wait()
			daemon, _ := h.current()
			if err := daemon.Ping(context.Background()); err != nil {
				t.Fatal(err)
			}
			for range daemon.Board().Unseen() {
				n++
			}
			return n
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistInterval, Unseen: unseen})
		if n := count(); n != 1 {
			t.Errorf("%d are told of", n)
		}
		h.engine.run("c1")
		if n := count(); n != 0 {
			t.Errorf("%d are told of when it is known", n)
		}
	})
}

// Of what was down when healthd came nobody expects that it serves; of what it knew, and finds down, they do.
func TestFoundDown(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.engine.beginRun("old")
		h.engine.endRun("old", 143)
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("known")
		synctest.Wait()
		h.kill()
		h.engine.endRun("known", 143)
		h.startDaemon(runtime.ReplayUnknown, 0)
		for id, want := range map[string]bool{"old": false, "known": true} {
			if v := h.view(id); v.ShouldServe() != want || v.State.Ending.By != core.EndedUnseen {
				t.Errorf("%s should serve: %v, want %v; %+v", id, !want, want, v.State.Ending)
			}
		}
	})
}

// A container that is listed but cannot be inspected yet is not taken for removed.
func TestNotInspectedIsNotRemoved(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.run("c2")
		synctest.Wait()
		h.operatorStop("c1")
		synctest.Wait()
		h.kill()
		h.notInspectable = "c1"
		h.startDaemon(runtime.ReplayComplete, 0)
		h.sleep(time.Minute)
		h.engine.deliver(h.engine.observation("c1"))
		h.sleep(time.Minute)
		if s := h.view("c1").State; !s.OperatorStopped() || h.running("c1") {
			h.t.Errorf("stopped by an operator: %v, runs: %v", s.OperatorStopped(), h.running("c1"))
		}
	})
}

// After a reboot the first connection breaks before all is known. What it told holds: an operator's signal, too.
func TestConnectionThatBreaksAfterAReboot(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		synctest.Wait()
		h.kill()
		h.engine.exit("c1", 255)
		h.engine.run("c1") // by the engine's own policy
		h.broken = func(deliver func(runtime.Update)) {
			deliver(runtime.Update{Kind: runtime.Connected, Replay: runtime.ReplayRestart})
			u := h.engine.observation("c1")
			deliver(u)
			deliver(runtime.Update{Kind: runtime.Killed, ID: "c1", Signal: 15, Time: time.Now(), Of: runtime.RunHint{Run: u.Container.Run(), Started: u.Container.StartedAt}})
			deliver(runtime.Update{Kind: runtime.Lost, Err: errors.New("the event stream ended")})
		}
		h.startDaemon(runtime.ReplayComplete, 0, "docker")
		h.engine.exit("c1", 143)
		h.sleep(time.Minute)
		if s := h.view("c1").State; !s.OperatorStopped() || h.running("c1") {
			h.t.Errorf("stopped by an operator: %v, runs: %v", s.OperatorStopped(), h.running("c1"))
		}
	})
}

// A daemon calls for a start and is killed before the call returns. The next daemon
// counts the restart, and does not start the container twice.
func TestStartCallOfAKilledDaemon(t *testing.T) {
	for _, lost := range []bool{false, true} {
		playHost(t, plainSpec(core.Always), func(h *fakeHost) {
			h.startDaemon(runtime.ReplayUnknown, 0)
			h.engine.run("c1")
			synctest.Wait()
			if lost {
				h.killBeforeCall = 1
			} else {
				h.killAfterCall = 1
			}
			h.engine.exit("c1", 1)
			h.sleep(time.Second)
			h.startDaemon(runtime.ReplayComplete, 0)
			h.sleep(time.Minute)
			if n := h.view("c1").State.RestartCount(); n != 1 || !h.running("c1") || h.needlessStarts != 0 {
				h.t.Errorf("the call was lost: %v; %d restarts, runs %v, %d starts of what ran", lost, n, h.running("c1"), h.needlessStarts)
			}
		})
	}
}

// A daemon is killed when it calls for a start. Before the next daemon repeats the call it asks for
// the signals to the run: an operator's may have been lost. Those of an engine that ended its
// containers tell nothing.
func TestSignalsBeforeARepeatedStart(t *testing.T) {
	for _, byEngine := range []bool{false, true} {
		playHost(t, plainSpec(core.Always), func(h *fakeHost) {
			h.startDaemon(runtime.ReplayUnknown, 0)
			h.engine.run("c1")
			synctest.Wait()
			h.killBeforeCall = 1
			if byEngine {
				h.killEngine()
				h.startEngine()
			} else {
				h.engine.exit("c1", 143)
			}
			h.sleep(time.Second)
			h.engine.mu.Lock()
			h.engine.lostKills = []runtime.Event{{ID: "c1", Action: runtime.ActionKill, Signal: 15, Time: h.engine.containers["c1"].FinishedAt}}
			h.engine.mu.Unlock()
			h.startDaemon(runtime.ReplayComplete, 0)
			h.sleep(time.Minute)
			if s := h.view("c1").State; h.running("c1") != byEngine || s.OperatorStopped() == byEngine {
				h.t.Errorf("ended by the engine: %v; it runs: %v, stopped by an operator: %v", byEngine, h.running("c1"), s.OperatorStopped())
			}
		})
	}
}

// A container whose first inspection after an engine restart fails counts as ended with
// its engine, like the others.
func TestEndedWithEngineInspectedLate(t *testing.T) {
	playHost(t, plainSpec(core.OnFailure), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.engine.run("c2")
		h.sleep(time.Minute)
		_ = h.daemon.Deliver(h.t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errConnectionClosed})
		h.engine.endRun("c1", 0)
		h.engine.endRun("c2", 0)
		h.notInspectable = "c1"
		h.startEngine()
		h.sleep(time.Second)
		h.engine.deliver(h.engine.observation("c1"))
		h.sleep(time.Minute)
		if !h.running("c1") || !h.running("c2") {
			h.t.Errorf("c1 runs: %v, c2 runs: %v", h.running("c1"), h.running("c2"))
		}
	})
}

// Containers have ended unseen, the last one at 15:00, when the engine started again.
func TestEndedLongBeforeItsEngine(t *testing.T) {
	at := func(clock string) time.Time {
		d, err := time.ParseDuration(clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
	}
	for _, tt := range []struct {
		name string
		life engineLife
		end  string
		want bool
	}{
		{"with the others", engineLife{}, "14h59m30s", false},
		{"long before", engineLife{}, "14h", true},
		{"soon after the engine closed the connection", engineLife{lostAt: at("13h59m50s"), cutOffAt: at("13h59m50s")}, "14h", false},
		{"long after the engine closed the connection", engineLife{lostAt: at("13h"), cutOffAt: at("13h")}, "14h", true},
		{"soon after the engine did not answer any more", engineLife{lostAt: at("13h59m50s")}, "14h", true},
		{"soon after, its clock ahead", engineLife{lostAt: at("12h59m50s"), cutOffAt: at("13h59m50s"), clockOffset: time.Hour}, "14h", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one, other := core.NewState(), core.NewState()
			all := []*entry{{container: &runtime.Container{}, state: &one}, {container: &runtime.Container{}, state: &other}}
			for i, end := range []string{tt.end, "15h"} {
				all[i].state.Run.Exit.FinishedAt, all[i].maybeWithEngine = at(end), true
			}
			if got := tt.life.endedBefore(all)(all[0]); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// healthd's host was booted. That says something of the engine there, and nothing of others.
func TestRebootOfOneHost(t *testing.T) {
	for _, rebooted := range []string{"docker", "another"} {
		playHost(t, plainSpec(core.Always), func(h *fakeHost) {
			h.startDaemon(runtime.ReplayUnknown, 0)
			h.engine.run("c1")
			h.sleep(time.Minute)
			h.shutDown()
			h.operatorStop("c1")
			h.startDaemon(runtime.ReplayUnknown, 0, rebooted)
			h.sleep(time.Minute)
			if want := rebooted == "docker"; h.running("c1") != want {
				h.t.Errorf("the host of %s was booted: c1 runs: %v", rebooted, !want)
			}
		})
	}
}

// An engine that has started many containers has dropped the news of its first ones. What ended
// with it is started again; what ended later may have been stopped by somebody.
func TestEngineThatDroppedItsNews(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		for _, id := range []string{"c1", "c2", "c3"} {
			h.engine.run(id)
		}
		h.sleep(time.Minute)
		h.kill()
		h.killEngine()
		time.Sleep(time.Second)
		h.engineBegan = time.Now()
		h.engine.run("c2") // by the engine's own policy
		h.engine.run("c3")
		time.Sleep(time.Hour)
		h.operatorStop("c3")
		h.startDaemon(runtime.ReplayRestart, 0)
		h.sleep(time.Minute)
		if !h.running("c1") || !h.running("c2") || h.running("c3") {
			h.t.Errorf("c1 runs: %v, c2 %v, c3 %v", h.running("c1"), h.running("c2"), h.running("c3"))
		}
	})
}

// Somebody stops a container while healthd is away. Hours later the engine ends, too.
func TestStoppedLongBeforeEngineEnded(t *testing.T) {
	for _, rebooted := range []string{"docker", ""} {
		playHost(t, plainSpec(core.Always), func(h *fakeHost) {
			h.startDaemon(runtime.ReplayUnknown, 0)
			for _, id := range []string{"c1", "c2", "c3"} {
				h.engine.run(id)
			}
			h.sleep(time.Minute)
			h.shutDown()
			h.operatorStop("c1")
			time.Sleep(5 * time.Hour)
			h.engine.endRun("c2", 0)
			time.Sleep(30 * time.Second)
			h.killEngine()
			time.Sleep(time.Hour)
			h.startDaemon(runtime.ReplayRestart, 0, rebooted)
			h.sleep(time.Minute)
			if h.running("c1") || !h.running("c2") || !h.running("c3") {
				h.t.Errorf("rebooted %q: c1 runs: %v, c2 %v, c3 %v", rebooted, h.running("c1"), h.running("c2"), h.running("c3"))
			}
		})
	}
}
