package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestInvalidLabelsAreShownOnly(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.containers["c1"] = &runtime.Container{Labels: map[string]string{"wrong": "label healthd.x: unknown"}}
		h.engine.run("c1")
		synctest.Wait()
		v := h.view("c1")
		ready, reason, message := v.Readiness()
		if v.Invalid == "" || ready || reason != core.NotReadyInvalid || message != v.Invalid {
			h.t.Errorf("view %+v, readiness %v %s %s", v, ready, reason, message)
		}
		h.engine.exit("c1", 1)
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		synctest.Wait()
		if v := h.view("c1"); v.State.Engine.State != runtime.Exited || v.Phase() != core.PhaseUnknown {
			h.t.Errorf("state %s, phase %s", v.State.Engine.State, v.Phase())
		}
		if calls := h.engine.calls(); len(calls) != 0 {
			h.t.Errorf("calls %v for a container with invalid labels", calls)
		}
		if err := h.Restart(h.t.Context(), "c1"); err == nil {
			h.t.Error("a restart of a container with invalid labels was accepted")
		}
		if got := h.journal.reasons("n-c1"); !slices.Equal(got, []string{"Invalid"}) {
			h.t.Errorf("events %v", got)
		}
	})
}

func TestRemovedContainerLeavesOnlyItsIdentity(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.exit("c1", 1) // healthd restarts it at once
		synctest.Wait()
		h.engine.exit("c1", 1) // back-off: one second
		synctest.Wait()
		if d := h.view("c1").State.Lasting.Backoff.Delay; d != time.Second {
			h.t.Fatalf("back-off %v after two ends, want 1 s", d)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		synctest.Wait()
		h.must(h.Ping(h.t.Context()))
		if _, err := h.Board().Find("n-c1"); err == nil || len(h.Board().Views()) != 0 {
			h.t.Error("a removed container is still on the board")
		}
		time.Sleep(time.Minute)
		if calls := h.engine.calls(); len(calls) != 1 {
			h.t.Errorf("calls %v for a removed container", calls)
		}
		h.engine.names["c2"] = "n-c1" // re-created under the same name
		h.engine.run("c2")
		synctest.Wait()
		v := h.view("n-c1")
		if v.Container.ID != "c2" || v.State.Lasting.Backoff.Delay != time.Second {
			h.t.Errorf("n-c1 is %s with back-off %v, want c2 with that of c1", v.Container.ID, v.State.Lasting.Backoff.Delay)
		}
	})
}

func TestRenameOnTheBoard(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		h.engine.run("c2")
		synctest.Wait()
		renamed := func(id, name string) {
			c := *h.engine.containers[id]
			c.Name = name
			h.engine.containers[id] = &c
			h.engine.deliver(h.engine.observation(id))
		}
		renamed("c1", "old")
		renamed("c2", "n-c1")
		synctest.Wait()
		if v := h.view("n-c1"); v.Container.ID != "c2" {
			h.t.Errorf("n-c1 is %s, want c2", v.Container.ID)
		}
		if v := h.view("old"); v.Container.ID != "c1" || !v.State.Conditions.Ready.Status {
			h.t.Errorf("old is %s, ready %v", v.Container.ID, v.State.Conditions.Ready.Status)
		}
		if _, err := h.Board().Find("n-c2"); err == nil {
			h.t.Error("n-c2 is still found")
		}
	})
}

func TestFoundContainersAreSpreadOverThePeriod(t *testing.T) {
	playWith(t, webSpec(), nil, func(h *harness) {
		for i := range 50 {
			h.engine.run(fmt.Sprintf("c%d", i))
		}
		h.sendSynced()
		synctest.Wait()
		halves := [2]int{}
		for _, v := range h.Board().Views() {
			wait := time.Until(v.State.Health.Probes[core.Readiness].Due)
			if wait < 0 || wait >= 5*time.Second {
				h.t.Fatalf("first probe in %v, want within one period", wait)
			}
			halves[int(wait/(2500*time.Millisecond))]++
		}
		if halves[0] < 10 || halves[1] < 10 {
			h.t.Errorf("first probes are not spread: %v", halves)
		}
	})
}

func TestRuntimeViews(t *testing.T) {
	playWith(t, webSpec(), nil, func(h *harness) {
		if h.Board().Synced() {
			h.t.Error("synced before the first list")
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("no engine")})
		synctest.Wait()
		if r := h.Board().Runtimes(); r[0].Err.Error() != "no engine" {
			h.t.Errorf("the engine is away because of %v, want the newest reason", r[0].Err)
		}
		h.sendSynced()
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistInterval})
		synctest.Wait()
		r := h.Board().Runtimes()
		if len(r) != 1 || !r[0].Up || !h.Board().Synced() || r[0].Relists[runtime.RelistStart] != 1 || r[0].Relists[runtime.RelistInterval] != 1 {
			h.t.Errorf("runtimes %+v", r)
		}
		if got, want := h.journal.reasons(""), []string{"RuntimeLost", "RuntimeBack"}; !slices.Equal(got, want) {
			h.t.Errorf("events %v, want %v", got, want)
		}
	})
}

// The first inspection of a container brings the causes that events named before it.
func TestCausesBeforeTheFirstObservation(t *testing.T) {
	for _, tt := range []struct {
		name   string
		killed bool
		calls  []string
	}{
		{"killed by an operator", true, nil},
		{"crashed", false, []string{"start c1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, webSpec(), func(h *harness) {
				began := time.Now()
				time.Sleep(time.Millisecond)
				ended := time.Now()
				h.engine.containers["c1"] = &runtime.Container{
					ID: "c1", Name: "n-c1", Runtime: "docker", State: runtime.Exited, StartedAt: began, FinishedAt: ended,
					ExitCode: 137, StopTimeout: -1, RestartPolicy: "no",
				}
				u := h.engine.observation("c1")
				u.StateFromEvent = true
				if tt.killed {
					u.Causes = append(u.Causes, runtime.Update{Kind: runtime.Killed, ID: "c1", Signal: 9, Time: ended, Of: runtime.RunHint{Run: u.Container.Run()}})
				}
				u.Causes = append(u.Causes, runtime.Update{Kind: runtime.Died, ID: "c1", ExitCode: 137, Time: ended, Of: runtime.RunHint{Run: u.Container.Run()}})
				h.engine.deliver(u)
				pass(time.Second)
				if got := h.engine.calls(); !slices.Equal(got, tt.calls) {
					h.t.Errorf("calls %v, want %v", got, tt.calls)
				}
			})
		})
	}
}

// The inspection of a container that stopped long ago failed during the first sync, and
// succeeds later.
func TestLateObservationOfLongExited(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.containers["c1"] = &runtime.Container{
			ID: "c1", Name: "n-c1", Runtime: "docker", State: runtime.Exited, StartedAt: time.Now().Add(-48 * time.Hour),
			FinishedAt: time.Now().Add(-24 * time.Hour), ExitCode: 143, StopTimeout: -1, RestartPolicy: "no",
		}
		h.engine.deliver(h.engine.observation("c1"))
		pass(time.Second)
		if calls := h.engine.calls(); len(calls) != 0 {
			h.t.Errorf("calls %v for a container found stopped since yesterday", calls)
		}
	})
}

// Inspections may arrive out of order.
func TestStaleInspectionsAreDropped(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		alive := h.engine.observation("c1")
		time.Sleep(time.Second)
		h.engine.endRun("c1", 1)
		dead := h.engine.observation("c1")
		h.engine.deliver(dead)
		h.engine.deliver(alive) // of the run that has ended
		pass(time.Second)
		h.engine.deliver(dead) // of the run before
		pass(time.Second)
		v := h.view("c1")
		if calls := h.engine.calls(); len(calls) != 1 || v.State.Engine.State != runtime.Running || v.Container.State != runtime.Running {
			h.t.Errorf("calls %v, state %s, want one start and a running container", calls, v.State.Engine.State)
		}
	})
}

// Compose creates the new container, removes the old one and then starts the new one.
func TestComposeRecreationKeepsTheBackoff(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		labels := map[string]string{core.ComposeProject: "p", core.ComposeService: "web", core.ComposeNumber: "1"}
		h.engine.containers["c1"] = &runtime.Container{Labels: labels}
		h.engine.run("c1")
		synctest.Wait()
		for range 4 {
			h.engine.exit("c1", 1)
			pass(20 * time.Second)
		}
		before := h.view("c1").State
		h.engine.containers["c2"] = &runtime.Container{
			ID: "c2", Name: "x_n-c1", Runtime: "docker", State: runtime.Created, Labels: labels, StopTimeout: -1, RestartPolicy: "no",
		}
		h.engine.deliver(h.engine.observation("c2"))
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1"})
		h.engine.run("c2")
		synctest.Wait()
		after := h.view("c2").State
		if after.Lasting.Backoff != before.Lasting.Backoff || after.Lasting.Restarts != before.Lasting.Restarts || !before.Lasting.Backoff.Active {
			h.t.Errorf("back-off %+v and restarts %v, want %+v and %v", after.Lasting.Backoff, after.Lasting.Restarts, before.Lasting.Backoff, before.Lasting.Restarts)
		}
	})
}

func TestInvalidContainerIsKeptUpToDate(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.containers["c1"] = &runtime.Container{Labels: map[string]string{"wrong": "bad"}, FinishedAt: time.Now().Add(-time.Hour)}
		h.engine.run("c1")
		c := *h.engine.containers["c1"]
		c.Name, c.State = "new", runtime.Paused
		h.engine.containers["c1"] = &c
		h.engine.deliver(h.engine.observation("c1"))
		synctest.Wait()
		if v := h.view("new"); v.Container.Name != "new" || v.State.Engine.State != runtime.Paused {
			h.t.Errorf("shown as %s %s", v.Container.Name, v.State.Engine.State)
		}
	})
}

func TestUnknownRuntimeIsAnError(t *testing.T) {
	playWith(t, webSpec(), nil, func(h *harness) {
		u := runtime.Update{Kind: runtime.Observed, Runtime: "other", ID: "c1", StateFromEvent: true, Container: &runtime.Container{
			ID: "c1", Name: "lost", Runtime: "other", State: runtime.Exited, StartedAt: time.Now(), FinishedAt: time.Now().Add(1), ExitCode: 1, StopTimeout: -1,
		}}
		h.engine.deliver(u)
		h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "other", Reason: runtime.RelistStart})
		pass(time.Second)
		if v := h.view("lost"); v.State.Request.Error == "" {
			h.t.Errorf("state %+v, want a failed start", v.State)
		}
	})
}

// A new address makes new probes. The answer of a probe of the old address does not
// count.
func TestNewAddress(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.probes.hanging["c1:1"] = true
		h.engine.run("c1")
		synctest.Wait()
		c := *h.engine.containers["c1"]
		c.Address = "127.0.0.9"
		h.engine.containers["c1"] = &c
		h.engine.deliver(h.engine.observation("c1"))
		pass(11 * time.Second)
		v := h.view("c1")
		if at := h.probes.address("c1:1"); at != "127.0.0.9" || !v.State.Health.Probes[core.Liveness].Running {
			h.t.Fatalf("probed at %s: %+v", at, v.State.Health.Probes[core.Liveness])
		}
		_ = h.send(context.Background(), &probeAnswer{id: "c1", run: v.State.Run.ID, version: 1, probe: core.Liveness, result: refused})
		if y := h.view("c1").State.Health.Probes[core.Liveness]; y.Outcome == prober.Failure {
			h.t.Errorf("an answer from the old address counted: %+v", y)
		}
	})
}

// The inspection after a call may be older than what healthd knows.
func TestStaleInspectionAfterACall(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		h.engine.endRun("c1", 1)
		dead := h.engine.observation("c1")
		h.engine.deliver(dead)
		pass(time.Second)
		_ = h.send(context.Background(), &callReturned{id: "c1", call: core.StopCall, container: dead.Container})
		if v := h.view("c1"); v.State.Engine.State != runtime.Running || v.Container.State != runtime.Running {
			h.t.Errorf("state %s, container %s, want both running", v.State.Engine.State, v.Container.State)
		}
	})
}

// healthd starts nothing while it has no connection to the engine, new containers
// included. The loss of one engine does not concern another.
func TestLostRuntimeIsLeftAlone(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("old")
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "other", Err: errors.New("gone")})
		if v := h.view("n-old"); v.State.Lost {
			h.t.Error("another runtime's loss is this one's")
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		h.engine.containers["new"] = &runtime.Container{
			ID: "new", Name: "n-new", Runtime: "docker", State: runtime.Exited, StartedAt: time.Now(), FinishedAt: time.Now().Add(1), ExitCode: 1,
			StopTimeout: -1, RestartPolicy: "no",
		}
		u := h.engine.observation("new")
		u.StateFromEvent = true
		h.engine.deliver(u)
		pass(time.Minute)
		if calls := h.engine.calls(); len(calls) != 0 {
			h.t.Fatalf("calls %v to a lost engine", calls)
		}
		h.sendSynced()
		pass(time.Second)
		if got, want := h.engine.calls(), []string{"start new"}; !slices.Equal(got, want) {
			h.t.Errorf("calls %v, want %v", got, want)
		}
	})
}

// A spec's network says where the container is probed and published, also after a reload.
func TestNetworkOfTheSpec(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("c1")
		synctest.Wait()
		c := *h.engine.containers["c1"]
		c.Address, c.Network = "127.0.0.2", "back"
		c.Networks = []runtime.NetworkAddress{{Network: "back", Address: "127.0.0.2"}, {Network: "front", Address: "127.0.0.3"}}
		h.engine.containers["c1"] = &c
		h.engine.deliver(h.engine.observation("c1"))
		for network, want := range map[string]string{"front": "127.0.0.3", "none": ""} {
			spec := webSpec()
			spec.Network = network
			h.must(h.Reload(h.t.Context(), func(runtime.Traits) (*core.Spec, error) { return spec, nil }, core.Guard{}))
			pass(11 * time.Second)
			if at, shown := h.probes.address("c1:1"), h.view("c1").Container.Address; at != want || shown != want {
				h.t.Errorf("%s: probed at %q, published at %q", network, at, shown)
			}
			// The same inspection, once more, changes nothing.
			h.engine.deliver(h.engine.observation("c1"))
			synctest.Wait()
			if shown := h.view("c1").Container.Address; shown != want {
				h.t.Errorf("%s: then published at %q", network, shown)
			}
		}
	})
}
