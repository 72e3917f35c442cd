package supervisor

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// newHeldHarness has one ready container that is held for d, or until Resume when d is
// 0.
func newHeldHarness(t *testing.T, d time.Duration) *harness {
	h := newHarness(t, slowReadySpec(core.Group{}))
	startReplicas(h, 1)
	until := time.Time{}
	if d > 0 {
		until = time.Now().Add(d)
	}
	if err := h.Hold(t.Context(), "n-a", until); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHeldContainerIsProbedAndNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldHarness(t, 0)
		defer h.close()
		h.failLiveness("a")
		asked := h.probes.timesAsked("a:2")
		h.probes.setResult("a:3", refused)
		pass(time.Hour)
		v := h.view("a")
		if len(h.engine.calls()) != 0 || v.State.Conditions.Ready.Status || h.probes.timesAsked("a:2") < asked+3000 {
			t.Errorf("calls %v, ready %v", h.engine.calls(), v.State.Conditions.Ready.Status)
		}
		if w := v.Waiting(); w == nil || w.Reason != core.WaitHeld {
			t.Errorf("waits for %+v", w)
		}
		h.probes.setResult("a:3", success)
		if err := h.Restart(t.Context(), "a"); !errors.Is(err, ErrHeld) {
			t.Errorf("restart: %v", err)
		}
		if err := h.Resume(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the verdict still stands
		if got, want := h.engine.calls(), []string{"stop a 30s", "start a"}; !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
		if err := h.Resume(t.Context(), "a"); err != nil {
			t.Errorf("a second resume: %v", err)
		}
	})
}

func TestHoldEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldHarness(t, time.Minute)
		defer h.close()
		h.engine.exit("a", 1)
		pass(time.Minute - time.Second)
		v := h.view("a")
		if w := v.Waiting(); len(h.engine.calls()) != 0 || w == nil || w.Reason != core.WaitHeld || time.Until(w.Until) != time.Second {
			t.Errorf("calls %v, waits for %+v", h.engine.calls(), w)
		}
		pass(time.Second)
		if got := h.engine.calls(); !slices.Equal(got, []string{"start a"}) || h.view("a").State.Lasting.Held() {
			t.Errorf("calls %v", got)
		}
	})
}

func TestResumeFollowsThePolicy(t *testing.T) {
	for policy, want := range map[core.RestartPolicy]int{core.Always: 1, core.OnFailure: 0, core.Never: 0} {
		play(t, plainSpec(policy), func(h *harness) {
			h.engine.run("a")
			_ = h.Ping(h.t.Context())
			_ = h.Hold(h.t.Context(), "a", time.Time{})
			_ = h.Hold(h.t.Context(), "a", time.Time{}) // changes nothing
			h.engine.exit("a", 0)
			time.Sleep(time.Hour)
			_ = h.Resume(h.t.Context(), "a")
			synctest.Wait()
			if got := h.engine.calls(); len(got) != want {
				h.t.Errorf("%s: calls %v", policy, got)
			}
			held := 0
			for _, reason := range h.journal.reasons("n-a") {
				if reason == core.EventHeld {
					held++
				}
			}
			if held != 1 {
				h.t.Errorf("%d events that it is held", held)
			}
		})
	}
}

// A hold during a restart: healthd starts again what it has stopped, and gives up a stop
// that still drains.
func TestHoldDuringARestart(t *testing.T) {
	spec := slowReadySpec(core.Group{})
	spec.Publish.Drain = 10 * time.Second
	playWith(t, spec, nil, func(h *harness) {
		h.engine.stopTakes = 5 * time.Second
		startReplicas(h, 1)
		h.failLiveness("a")
		_ = h.Hold(h.t.Context(), "a", time.Time{})
		if s := h.view("a").State; s.Action.Stopping != core.NoCause || s.Health.Failed != core.ByLiveness || !s.Conditions.Ready.Status {
			h.t.Errorf("held during the drain: %+v", s)
		}
		_ = h.Resume(h.t.Context(), "a")
		time.Sleep(12 * time.Second) // the stop is under way
		_ = h.Hold(h.t.Context(), "a", time.Time{})
		pass(time.Minute)
		if s := h.view("a").State; !s.Lasting.Held() || !s.Conditions.Ready.Status || s.RestartCount() != 1 {
			h.t.Errorf("held during the stop: %+v", s)
		}
	})
}

func TestOperatorStopsAHeldContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldHarness(t, time.Minute)
		defer h.close()
		h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "a", Signal: 15, Time: time.Now()})
		h.engine.exit("a", 143)
		pass(time.Hour)
		if s := h.view("a").State; !s.OperatorStopped() || len(h.engine.calls()) != 0 {
			t.Errorf("calls %v, %+v", h.engine.calls(), s)
		}
	})
}

// A hold belongs to the identity: it outlives a run, a container and a daemon.
func TestHoldBelongsToTheIdentity(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		synctest.Wait()
		until := time.Now().Add(time.Hour)
		_ = h.daemon.Hold(h.t.Context(), "c1", until)
		held := func(when, id string) {
			h.t.Helper()
			if s := h.view(id).State; !s.Lasting.Held() || !s.Lasting.HeldUntil().Equal(until) {
				h.t.Errorf("%s: %v until %v", when, s.Lasting.Held(), s.Lasting.HeldUntil())
			}
		}
		h.engine.exit("c1", 1)
		h.engine.run("c1") // not by healthd
		held("a new run", "c1")
		h.kill()
		h.startDaemon(runtime.ReplayComplete, 0)
		held("a new daemon", "c1")
		h.engine.mu.Lock()
		delete(h.engine.containers, "c1")
		h.engine.names["c2"] = "n-c1"
		h.engine.mu.Unlock()
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		h.engine.run("c2")
		held("a new container", "c2")
		h.engine.exit("c2", 1)
		began := time.Now()
		h.shutDown() // a hold does not delay the shutdown
		if took := time.Since(began); took != 0 {
			h.t.Errorf("the daemon took %v to end", took)
		}
		h.startDaemon(runtime.ReplayComplete, 0)
		held("a shutdown", "c2")
		h.sleep(2 * time.Hour)
		if !h.running("c2") || h.view("c2").State.Lasting.Held() {
			h.t.Error("not started when the hold was over")
		}
	})
}

// What people hold goes to the next container of the identity, and their newest word counts. A hold of the fleet is the container's
// alone.
func TestHoldOfARecreatedContainer(t *testing.T) {
	for _, tt := range []struct {
		name                       string
		heldBefore, fleetBefore    bool
		recreated                  bool // once more, before it has ever run
		heldCreated, fleetCreated  bool
		wantHere, wantFleet, until bool
	}{
		{name: "the old one was held", heldBefore: true, wantHere: true, until: true},
		{name: "the new one is held before its start", heldCreated: true, wantHere: true},
		{name: "both were", heldBefore: true, heldCreated: true, wantHere: true},
		{name: "the fleet held the old one", fleetBefore: true},
		{name: "the fleet holds the new one", fleetBefore: true, heldBefore: true, fleetCreated: true, wantHere: true, wantFleet: true, until: true},
		{name: "it is held before its start, and created again", heldCreated: true, recreated: true, wantHere: true},
	} {
		playHost(t, plainSpec(core.Always), func(h *fakeHost) {
			h.startDaemon(runtime.ReplayUnknown, 0)
			h.engine.run("c1")
			synctest.Wait()
			daemon, _ := h.current()
			ctx := h.t.Context()
			if tt.heldBefore {
				_ = daemon.Hold(ctx, "c1", time.Now().Add(time.Hour))
			}
			if tt.fleetBefore {
				_ = daemon.HoldByFleet(ctx, "c1", "a")
			}
			h.engine.exit("c1", 1)
			synctest.Wait()
			remove := func(id string) {
				h.engine.delete(id)
				h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
			}
			create := func(id string) {
				h.engine.mu.Lock()
				h.engine.names[id] = "n-c1"
				h.engine.containers[id] = &runtime.Container{ID: id, Name: "n-c1", Runtime: "docker", State: runtime.Created, StopTimeout: -1, RestartPolicy: "no"}
				h.engine.mu.Unlock()
				h.engine.deliver(h.engine.observation(id))
				synctest.Wait()
			}
			remove("c1")
			create("c2")
			if tt.heldCreated {
				_ = daemon.Hold(ctx, "c2", time.Time{})
			}
			if tt.fleetCreated {
				_ = daemon.HoldByFleet(ctx, "c2", "b")
			}
			id := "c2"
			if tt.recreated {
				remove("c2")
				create("c3")
				id = "c3"
			}
			h.engine.run(id)
			l := &h.view(id).State.Lasting
			if l.HeldHere != tt.wantHere || l.HeldByFleet() != tt.wantFleet || l.HeldHereUntil.IsZero() == tt.until || l.Restarts[core.ByExit] != 0 && tt.heldBefore {
				h.t.Errorf("%s: %+v", tt.name, l)
			}
		})
	}
}

// Where there is no fleet any more, nothing would end its hold.
func TestFleetHoldWithoutAFleet(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		synctest.Wait()
		daemon, _ := h.current()
		_ = daemon.Hold(h.t.Context(), "c1", time.Time{})
		_ = daemon.HoldByFleet(h.t.Context(), "c1", "a")
		synctest.Wait()
		h.kill()
		h.startDaemon(runtime.ReplayComplete, 0)
		if l := &h.view("c1").State.Lasting; l.HeldByFleet() || !l.HeldHere {
			h.t.Errorf("%+v", l)
		}
	})
}
