package supervisor

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestReloadOfTheSameSpecs(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("a")
		synctest.Wait()
		h.engine.exit("a", 1)
		time.Sleep(7 * time.Second)
		h.probes.setHanging("a:1")
		time.Sleep(5 * time.Second)
		before := h.view("a").State
		if !before.Health.Probes[core.Liveness].Running {
			h.t.Fatal("no probe is under way")
		}
		spec := webSpec()
		spec.Values, spec.MatchedBy = []core.Value{{Path: "a", Value: "b", Origin: "elsewhere:1"}}, "somewhere else"
		h.reload(map[string]*core.Spec{"": spec})
		v := h.view("a")
		if !reflect.DeepEqual(v.State, before) || v.Spec != spec {
			h.t.Errorf("before %+v\nafter %+v", before, v.State)
		}
		_ = h.send(h.t.Context(), &probeAnswer{id: "a", run: before.Run.ID, version: 2, probe: core.Liveness, result: success})
		if y := h.view("a").State.Health.Probes[core.Liveness]; y.Running || y.Outcome != prober.Success {
			h.t.Errorf("the probe under way was dropped: %+v", y)
		}
	})
}

func TestReloadOfAnotherSpec(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		h.engine.run("a")
		time.Sleep(time.Second)
		run := h.view("a").State.Run.ID
		spec := webSpec()
		spec.Probes[core.Readiness] = tcpProbe(3, 2*time.Second, 1)
		spec.Probes[core.Startup] = tcpProbe(4, time.Second, 1)
		h.probes.setResult("a:3", refused)
		events := len(h.journal.reasons("n-a"))
		h.reload(map[string]*core.Spec{"": spec})
		if s := h.view("a").State; !s.Conditions.Ready.Status || s.Run.ID != run || len(h.journal.reasons("n-a")) != events {
			h.t.Errorf("withdrawn or restarted: %+v", s)
		}
		pass(5 * time.Second)
		if s := h.view("a").State; s.Conditions.Ready.Status || s.Run.ID != run || h.probes.timesAsked("a:4") != 0 {
			h.t.Errorf("the new probe does not count: %+v", s)
		}
	})
}

// A verdict that waits is dropped with the probe that gave it.
func TestReloadForgetsTheVerdictOfAnotherProbe(t *testing.T) {
	play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
		startReplicas(h, 2)
		h.failLiveness("a")
		h.failLiveness("b")
		if h.waitReason("b") == "" {
			h.t.Fatal("b does not wait")
		}
		spec := slowReadySpec(core.Group{Name: "web"})
		spec.Probes[core.Liveness] = nil
		h.reload(map[string]*core.Spec{"": h.specs[""], "n-b": spec})
		pass(time.Minute)
		if s := h.view("b").State; s.RestartCount() != 0 || s.Health.Failed != core.NoCause {
			h.t.Errorf("restarted for a removed probe: %+v", s)
		}
	})
}

// A waiting container keeps its place, in whatever order a reload handles the
// containers.
func TestReloadKeepsTheQueue(t *testing.T) {
	for range 10 {
		play(t, slowReadySpec(core.Group{Name: "web"}), func(h *harness) {
			startReplicas(h, 5)
			for _, id := range []string{"b", "d", "a", "c"} {
				h.failLiveness(id)
			}
			h.reload(map[string]*core.Spec{"": slowReadySpec(core.Group{Name: "web"})})
			pass(time.Minute)
			want := []string{"start b", "start d", "start a", "start c"}
			got := slices.DeleteFunc(h.engine.calls(), func(c string) bool { return c[:4] == "stop" })
			if !slices.Equal(got, want) {
				h.t.Errorf("calls %v, want %v", got, want)
			}
		})
	}
}

func TestReloadChangesLimits(t *testing.T) {
	playWith(t, slowReadySpec(core.Group{Name: "web"}), func(c *Config) { c.Guard = core.Guard{MaxRestarts: 2, Window: time.Hour} }, func(h *harness) {
		h.failLiveness(startReplicas(h, 6)...)
		wide := slowReadySpec(core.Group{Name: "web", MaxUnavailable: core.Share{Percent: 100}})
		stops := func() int {
			synctest.Wait()
			n := 0
			for _, c := range h.engine.calls() {
				if c[:4] == "stop" {
					n++
				}
			}
			return n
		}
		for _, tt := range []struct {
			spec  *core.Spec
			guard core.Guard
			want  int
		}{
			{h.specs[""], core.Guard{MaxRestarts: 2, Window: time.Hour}, 1},
			{wide, core.Guard{MaxRestarts: 2, Window: time.Hour}, 2},
			{wide, core.Guard{MaxRestarts: 4, Window: time.Hour}, 4},
			{wide, core.Guard{}, 6},
		} {
			h.must(h.Reload(h.t.Context(), func(runtime.Traits) (*core.Spec, error) { return tt.spec, nil }, tt.guard))
			if got := stops(); got != tt.want {
				h.t.Errorf("%+v and %+v: %d stops, want %d", tt.spec.Group, tt.guard, got, tt.want)
			}
		}
	})
}

// A container without a spec leaves the board, but not in the middle of a restart.
func TestReloadWithoutASpec(t *testing.T) {
	spec := webSpec()
	spec.Publish.Drain = 10 * time.Second
	play(t, spec, func(h *harness) {
		h.engine.run("a")
		h.engine.run("b")
		synctest.Wait()
		h.must(h.Restart(h.t.Context(), "a"))
		h.reload(map[string]*core.Spec{"": nil})
		if _, err := h.Board().Find("b"); err == nil {
			h.t.Error("b is still on the board")
		}
		if v := h.view("a"); !v.State.Draining() {
			h.t.Errorf("the restart was given up: %+v", v.State)
		}
		pass(20 * time.Second)
		if got, want := h.engine.calls(), []string{"stop a 30s", "start a"}; !slices.Equal(got, want) {
			h.t.Errorf("calls %v, want %v", got, want)
		}
		if _, err := h.Board().Find("a"); err == nil {
			h.t.Error("a is still on the board")
		}
		asked := h.probes.timesAsked("a:1")
		h.engine.exit("a", 1)
		time.Sleep(time.Hour)
		if h.probes.timesAsked("a:1") != asked || len(h.engine.calls()) != 2 {
			h.t.Error("a is still supervised")
		}
	})
}

// A container that ended while healthd did not supervise it is left alone: healthd did not watch. It
// did while labels were invalid.
func TestReloadTakesContainersBack(t *testing.T) {
	for _, wrong := range []bool{true, false} {
		for _, stopped := range []bool{true, false} {
			play(t, webSpec(), func(h *harness) {
				h.engine.run("a")
				pass(time.Second)
				h.engine.exit("a", 1)
				pass(time.Second)
				count := h.view("a").State.RestartCount()
				_ = h.Reload(h.t.Context(), func(runtime.Traits) (*core.Spec, error) {
					if wrong {
						return nil, errors.New("wrong")
					}
					return nil, nil
				}, core.Guard{})
				if wrong && h.view("a").Invalid != "wrong" {
					h.t.Errorf("view %+v", h.view("a"))
				}
				if stopped {
					h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "a", Signal: 15, Time: time.Now()})
					h.engine.exit("a", 143)
					h.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: "a"})
				}
				time.Sleep(time.Minute)
				callsBefore, eventsBefore := len(h.engine.calls()), len(h.journal.reasons("n-a"))
				h.reload(map[string]*core.Spec{"": webSpec()})
				if !wrong { // it comes with the next list
					h.engine.deliver(h.engine.observation("a"))
				}
				pass(time.Minute)
				v := h.view("a")
				if v.State.Engine.State.Alive() == stopped || len(h.engine.calls()) != callsBefore || v.State.RestartCount() != count || v.State.Conditions.Ready.Status == stopped {
					h.t.Errorf("wrong %v, stopped %v: calls %v, %+v", wrong, stopped, h.engine.calls(), v.State)
				}
				ended := map[bool]string{true: core.EventOperatorStopped, false: core.EventExited}[wrong]
				if events := h.journal.reasons("n-a")[eventsBefore:]; slices.Contains(events, core.EventStarted) || slices.Contains(events, ended) != stopped {
					h.t.Errorf("wrong %v, stopped %v: events %v", wrong, stopped, events)
				}
			})
		}
	}
}

// Containers that a reload brings in ran before. Their start is neither recorded nor
// followed by a hook.
func TestReloadAddsContainers(t *testing.T) {
	play(t, nil, func(h *harness) {
		for _, id := range []string{"a", "b", "c"} {
			h.engine.run(id)
		}
		time.Sleep(time.Second)
		spec := webSpec()
		spec.Lifecycle.PostStart = &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{"post_start"}}}
		h.reload(map[string]*core.Spec{"": spec})
		for _, id := range []string{"a", "b", "c"} {
			h.engine.deliver(h.engine.observation(id))
		}
		spread := make(map[time.Duration]bool)
		for _, id := range []string{"a", "b", "c"} {
			spread[time.Until(h.view(id).State.Health.Probes[core.Readiness].Due)] = true
		}
		h.engine.run("d") // started after the reload
		synctest.Wait()
		if h.probes.timesAsked("a:post_start") != 0 || len(h.journal.reasons("n-a")) != 0 || len(spread) != 3 {
			h.t.Errorf("hook %d times, events %v, first probes in %v", h.probes.timesAsked("a:post_start"), h.journal.reasons("n-a"), spread)
		}
		if h.probes.timesAsked("d:post_start") != 1 {
			h.t.Error("the hook of a container that began later has not run")
		}
	})
}

// containerd lets others change the labels of a container while it runs.
func TestLabelsChange(t *testing.T) {
	playWith(t, webSpec(), func(c *Config) {
		byName := c.Resolve
		c.Resolve = func(t runtime.Traits) (*core.Spec, error) {
			if t.Labels["policy"] != "" {
				return memberSpec(core.RestartPolicy(t.Labels["policy"])), nil
			}
			return byName(t)
		}
	}, func(h *harness) {
		h.sendSynced()
		h.engine.run("a")
		synctest.Wait()
		started := h.view("n-a").State.Run.StartedAt
		label := func(labels map[string]string) *core.View {
			c := *h.engine.containers["a"]
			c.Labels = labels
			h.engine.containers["a"] = &c
			h.engine.deliver(h.engine.observation("a"))
			_ = h.Ping(h.t.Context())
			return h.view("n-a")
		}
		if v := label(map[string]string{"policy": string(core.Never)}); v.Spec.RestartPolicy != core.Never {
			h.t.Errorf("the spec is still %+v", v.Spec)
		}
		if v := label(map[string]string{"wrong": "no such policy"}); v.Invalid != "no such policy" {
			h.t.Errorf("invalid: %q", v.Invalid)
		}
		if v := label(nil); v.Invalid != "" || v.Spec.RestartPolicy != webSpec().RestartPolicy || v.State.Run.StartedAt != started || v.State.RestartCount() != 0 {
			h.t.Errorf("view %+v", v)
		}
	})
}

func TestRenameFindsAnotherSpec(t *testing.T) {
	store := &slowStore{}
	playWith(t, webSpec(), func(c *Config) { c.Store = store }, func(h *harness) {
		h.specs["alone"], h.specs["other"] = nil, memberSpec(core.Never)
		h.sendSynced()
		h.engine.run("a")
		synctest.Wait()
		rename := func(name string) {
			c := *h.engine.containers["a"]
			c.Name = name
			h.engine.containers["a"] = &c
			h.engine.deliver(h.engine.observation("a"))
			_ = h.Ping(h.t.Context())
		}
		rename("same")
		if m := store.newest(); m.Name != "same" || m.Identity != "same" {
			h.t.Errorf("kept as %s, %s", m.Name, m.Identity)
		}
		if v := h.view("same"); v.Identity != "same" || v.Group != "same" || !v.State.Conditions.Ready.Status {
			h.t.Errorf("view %+v", v)
		}
		rename("other")
		if v := h.view("other"); v.Spec.RestartPolicy != core.Never || v.State.RestartCount() != 0 {
			h.t.Errorf("view %+v", v)
		}
		rename("alone")
		if views := h.Board().Views(); len(views) != 0 {
			h.t.Errorf("still on the board: %+v", views[0])
		}
	})
}
