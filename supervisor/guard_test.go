package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// slowReadySpec is the spec of a container that is ready five seconds after its start.
// Liveness is on port 2, once a second; one failure is enough.
func slowReadySpec(group core.Group) *core.Spec {
	spec := probesSpec(time.Second, core.Liveness, core.Readiness)
	spec.Probes[core.Readiness].InitialDelay = 5 * time.Second
	spec.Backoff = core.Backoff{} // however often it restarts
	spec.Group = group
	return spec
}

var success = prober.Result{Outcome: prober.Success}

// startReplicas starts n containers of one group and waits until they are ready. After a
// stop their liveness succeeds again.
func startReplicas(h *harness, n int) (ids []string) {
	h.sendSynced()
	for i := range n {
		id := string(rune('a' + i))
		ids = append(ids, id)
		h.engine.run(id)
	}
	h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
	pass(5500 * time.Millisecond)
	return ids
}

func TestGroupLimit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		max     core.Share
		members int
		atOnce  int
	}{
		{"default", core.Share{}, 3, 1},
		{"two", core.Share{Number: 2}, 5, 2},
		{"more than members", core.Share{Number: 9}, 3, 3},
		{"half", core.Share{Percent: 50}, 5, 2},
		{"a tenth is at least one", core.Share{Percent: 10}, 4, 1},
		{"all", core.Share{Percent: 100}, 4, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, slowReadySpec(core.Group{Name: "web", MaxUnavailable: tt.max}), func(h *harness) {
				ids := startReplicas(h, tt.members)
				h.failLiveness(ids...)
				most, done := 0, false
				for range 600 {
					synctest.Wait()
					down := 0
					done = true
					for _, id := range ids {
						if s := h.view(id).State; !s.Conditions.Ready.Status {
							down++
						} else if s.RestartCount() == 0 {
							done = false
						}
					}
					most = max(most, down)
					if done && down == 0 {
						break
					}
					done = false
					time.Sleep(100 * time.Millisecond)
				}
				if most != tt.atOnce || !done {
					h.t.Errorf("at most %d were down at once, want %d; all restarted: %v", most, tt.atOnce, done)
				}
				for _, id := range ids {
					if n := h.view(id).State.RestartCount(); n != 1 {
						h.t.Errorf("%s was restarted %d times", id, n)
					}
				}
			})
		})
	}
}

// The container that has waited longest comes first, and the view says what each waits
// for.
func TestGroupLimitIsFairAndShown(t *testing.T) {
	play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
		startReplicas(h, 3)
		h.failLiveness("b")
		h.failLiveness("c")
		h.failLiveness("a")
		if got, want := h.waitReason("c"), "GroupLimit failed liveness probe, its restart waits for n-b"; got != want {
			h.t.Errorf("c: %q, want %q", got, want)
		}
		if got, want := h.waitReason("a"), "GroupLimit failed liveness probe, its restart waits for n-b, n-c"; got != want {
			h.t.Errorf("a: %q, want %q", got, want)
		}
		if v := h.view("a"); !v.State.Conditions.Ready.Status || v.Waiting().Until.IsZero() {
			h.t.Errorf("it is withdrawn while it waits, or no end is known: %+v", v.Waiting())
		}
		pass(time.Minute)
		want := []string{"stop b 30s", "start b", "stop c 30s", "start c", "stop a 30s", "start a"}
		if got := h.engine.calls(); !slices.Equal(got, want) {
			h.t.Errorf("calls %v, want %v", got, want)
		}
		if n := strings.Count(strings.Join(h.journal.reasons("n-a"), " "), core.WaitGroupLimit); n != 1 {
			h.t.Errorf("%d events that it waits", n)
		}
	})
}

func TestRecoveredContainerIsNotRestarted(t *testing.T) {
	play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
		startReplicas(h, 2)
		h.failLiveness("a")
		h.failLiveness("b")
		asked := h.probes.timesAsked("b:2")
		h.probes.setResult("b:2", success)
		pass(time.Minute)
		if s := h.view("b").State; s.RestartCount() != 0 || s.Health.Failed != core.NoCause || h.probes.timesAsked("b:2") < asked+30 {
			h.t.Errorf("restarted or not probed: %+v", s)
		}
		if w := h.waitReason("b"); w != "" {
			h.t.Errorf("still waits: %s", w)
		}
		if got := h.journal.reasons("n-b"); got[len(got)-1] != core.WaitGroupLimit || len(h.engine.calls()) != 2 {
			h.t.Errorf("events %v, calls %v", got, h.engine.calls())
		}
	})
}

// A container that is down for another reason than a failed probe does not count for the
// limit, and is not limited.
func TestGroupLimitIsForProbesOnly(t *testing.T) {
	play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
		startReplicas(h, 4)
		h.failLiveness("a")
		h.engine.exit("b", 1)
		h.must(h.Restart(h.t.Context(), "c"))
		synctest.Wait()
		if calls := h.engine.calls(); !slices.Contains(calls, "start b") || !slices.Contains(calls, "start c") {
			h.t.Errorf("calls %v", calls)
		}
		time.Sleep(10 * time.Second) // a is ready again
		h.must(h.Restart(h.t.Context(), "c"))
		h.failLiveness("d")
		if w := h.waitReason("d"); w != "" || h.view("d").State.RestartCount() != 1 {
			h.t.Errorf("d waits: %s", w)
		}
	})
}

// A container counts as down until it is ready again, its startup budget is over, or it
// is gone for good.
func TestEndOfAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*harness)
		free time.Duration // from the start of a's new run
	}{
		{"ready again", func(h *harness) {}, 5 * time.Second},
		{"never ready", func(h *harness) { h.probes.setResult("a:3", refused) }, 7 * time.Second},
		{"removed", func(h *harness) { h.remove("a") }, 0},
		{"stopped by an operator", func(h *harness) {
			h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "a", Signal: 15, Time: time.Now()})
			h.engine.exit("a", 143)
		}, 0},
		{"of another group now", func(h *harness) {
			group := slowReadySpec(core.Group{Name: "other"})
			_ = h.Reload(context.Background(), func(c runtime.Traits) (*core.Spec, error) {
				if c.Name == "n-a" {
					return group, nil
				}
				return h.specs[""], nil
			}, core.Guard{})
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
				startReplicas(h, 2)
				h.failLiveness("a")
				began := h.view("a").State.Run.BeganAt
				h.failLiveness("b")
				tt.do(h)
				for range 1000 {
					synctest.Wait()
					if slices.Contains(h.engine.calls(), "stop b 30s") {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				// b failed a second after a, and the loop looks at least once a second.
				got, want := time.Since(began), max(tt.free, time.Second)
				if got < want-100*time.Millisecond || got > want+1100*time.Millisecond {
					h.t.Errorf("b was restarted %v after the new run of a began, want %v", got, want)
				}
			})
		})
	}
}

// The spec or the Compose labels say which group a container belongs to.
func TestGroupMembership(t *testing.T) {
	compose := map[string]string{core.ComposeProject: "p", core.ComposeService: "web"}
	for _, tt := range []struct {
		name   string
		group  core.Group
		labels map[string]string
		waits  bool
	}{
		{"by name", core.Group{Name: "g"}, nil, true},
		{"by compose service", core.Group{}, compose, true},
		{"alone", core.Group{}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playWith(t, slowReadySpec(tt.group), nil, func(h *harness) {
				h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
				h.sendSynced()
				for _, id := range []string{"a", "b"} {
					h.create(runtime.Container{ID: id, Name: id, Labels: tt.labels})
					h.engine.run(id)
				}
				time.Sleep(6 * time.Second)
				h.failLiveness("a", "b")
				waits := h.waitReason("a")+h.waitReason("b") != ""
				if waits != tt.waits {
					h.t.Errorf("waits: %v, want %v", waits, tt.waits)
				}
			})
		})
	}
}

// A failed post_start hook waits for the group as a failed probe does, also after the
// engine was lost.
func TestFailedPostStartWaitsForItsGroup(t *testing.T) {
	spec := slowReadySpec(core.Group{Name: "web"})
	spec.Lifecycle.PostStart = &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{"post_start"}}}
	play(t, spec, func(h *harness) {
		startReplicas(h, 2)
		h.probes.setResult("b:post_start", refused)
		h.probes.setHanging("a:post_start") // a counts as down for five minutes
		h.failLiveness("a")
		h.engine.run("b")
		synctest.Wait()
		if got := h.waitReason("b"); !strings.HasPrefix(got, "GroupLimit failed its post_start hook") {
			h.t.Fatalf("b waits for %q", got)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("gone")})
		h.probes.setResult("b:post_start", success)
		h.sendSynced()
		synctest.Wait()
		if got := h.waitReason("b"); !strings.HasPrefix(got, "GroupLimit failed its post_start hook") {
			h.t.Fatalf("after the return of the engine b waits for %q", got)
		}
		pass(10 * time.Minute)
		if s := h.view("b").State; !s.Conditions.Ready.Status || s.Lasting.Restarts[core.ByPostStart] != 1 {
			h.t.Errorf("b in the end: %+v", s)
		}
	})
}

// A container that an earlier daemon began to restart counts as down.
func TestGroupLimitOutlivesTheDaemon(t *testing.T) {
	spec := slowReadySpec(core.Group{Name: "web"})
	spec.Publish.Drain = 20 * time.Second
	playHost(t, spec, func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("a")
		h.engine.run("b")
		h.sleep(6500 * time.Millisecond)
		h.probes.setResult("a:2", refused)
		h.sleep(time.Second)
		h.kill()
		h.probes.setResult("b:2", refused)
		h.startDaemon(runtime.ReplayComplete, 0)
		h.sleep(2 * time.Second)
		if w := h.view("b").Waiting(); w == nil || w.Reason != core.WaitGroupLimit || !h.view("a").State.Draining() {
			h.t.Errorf("b waits for %+v", w)
		}
	})
}

func TestNameListIsCut(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "0", 5: "0, 1, 2, 3, 4", 7: "0, 1, 2, 3, 4 and 2 more"} {
		var list nameList
		for i := range n {
			list.add(&entry{container: &runtime.Container{Name: fmt.Sprint(i)}})
		}
		if got := list.String(); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// One recovery among many that wait concerns the first in the queue, and not all.
func TestRecoveryAmongManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, group := range []string{"alone", "in pairs", "in one group"} {
			l, all := waitingLoop(t, 500, group)
			for l.guard.changed() {
				l.recheckWaiting(time.Now())
			}
			before := make([]*core.View, len(all))
			for i, e := range all {
				before[i] = e.slot.view.Load()
			}
			e := all[250]
			e.state.Health.Probes[core.Liveness].Running = true
			l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: success})
			for l.guard.changed() {
				l.recheckWaiting(time.Now())
			}
			changed := 0
			for i, e := range all {
				if e.slot.view.Load() != before[i] {
					changed++
				}
			}
			if e.place.began != 0 || changed > 2*shownWaits {
				t.Errorf("%s: it waits: %v; %d of %d were stepped", group, e.place.began != 0, changed, len(all))
			}
		}
	})
}

// A start that failed while healthd shut down is left to the next daemon. Until then the
// container is down.
func TestOutageOfAStartLeftOver(t *testing.T) {
	run := runtime.Run{ID: "a", Started: 1}
	e := &entry{spec: plainSpec(core.Always), down: core.Outage{Run: run, Since: time.Now()}, state: &core.State{
		Kept:     &core.Kept{Engine: core.Engine{State: runtime.Exited}, Run: core.Run{ID: run}, Action: core.Action{Restart: core.ByLiveness}},
		Shutdown: core.Shutdown{Begun: true, LeftOver: true},
	}}
	if down, _ := e.outage(time.Now()); !down {
		t.Error("it no longer counts as down")
	}
}

// So is a stop whose drain takes too long for a shutdown. Nobody else of the group is stopped meanwhile.
func TestOutageOfAStopLeftOver(t *testing.T) {
	spec := slowReadySpec(core.Group{Name: "web", MaxUnavailable: core.Share{Number: 1}})
	spec.Publish.Drain = 2 * time.Minute
	playHost(t, spec, func(h *fakeHost) {
		h.shutdown = 30 * time.Second
		h.startDaemon(runtime.ReplayUnknown, 0)
		for _, id := range []string{"a", "b", "c"} {
			h.engine.run(id)
		}
		time.Sleep(10 * time.Second)
		h.probes.setResult("a:2", refused)
		time.Sleep(5 * time.Second)
		h.shutDown()
		h.startDaemon(runtime.ReplayComplete, 0)
		time.Sleep(5 * time.Second)
		h.probes.setResult("b:2", refused)
		pass(5 * time.Second)
		daemon, _ := h.current()
		var draining []string
		for _, v := range daemon.Board().Views() {
			if v.State.Draining() {
				draining = append(draining, v.Container.Name)
			}
		}
		if len(draining) != 1 {
			h.t.Errorf("draining at once: %v", draining)
		}
		h.kill()
	})
}

// An outage that has lasted as long as it may is over, also if no message of the container has come: a later run does
// not begin it again.
func TestOutagesDoNotComeBack(t *testing.T) {
	first, next := runtime.Run{ID: "a", Started: 1}, runtime.Run{ID: "a", Started: 2}
	began := time.Now()
	for name, expire := range map[string]func(*guard, *group, time.Time){
		"of the group": func(_ *guard, m *group, now time.Time) { m.expire(now) },
		"of a fleet":   func(g *guard, _ *group, now time.Time) { g.expire(now) },
	} {
		g := newGuard(core.Guard{}, &Board{}, &handPlaces{})
		e := &entry{
			container: &runtime.Container{ID: "a"}, spec: slowReadySpec(core.Group{Name: "web", Fleet: true}), groupKey: "web",
			down: core.Outage{Run: first, Since: began}, state: &core.State{Kept: &core.Kept{
				Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: next, BeganAt: began},
			}},
		}
		g.join(e)
		m := g.groups["web"]
		if !m.down.has(e) {
			t.Fatalf("%s: it is not down", name)
		}
		over := began.Add(e.spec.TimeToReady())
		expire(g, m, over)
		e.state.Run = core.Run{ID: runtime.Run{ID: "a", Started: 3}, BeganAt: over}
		if m.updateDown(e, over); m.down.has(e) {
			t.Errorf("%s: it is down again", name)
		}
	}
}

// Groups of containers that came and went are of no use to the guard, also while nobody waits for it: on
// a host that runs jobs, each has a name that never comes again.
func TestGuardForgetsGroupsThatAreGone(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		for i := range 50 {
			id := fmt.Sprint("job-", i)
			h.engine.run(id)
			h.remove(id)
			synctest.Wait()
		}
		groups, rechecks := make(chan int, 1), make(chan int, 1)
		if err := h.send(h.t.Context(), inspectLoop(func(l *loop) { groups <- len(l.guard.groups); rechecks <- len(l.guard.recheck) })); err != nil {
			h.t.Fatal(err)
		}
		if n, recheck := <-groups, <-rechecks; n != 0 || recheck != 0 {
			h.t.Errorf("there are %d groups, and %d to look at", n, recheck)
		}
	})
}
