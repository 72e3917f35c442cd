package supervisor

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// memberSpec is the spec of a container whose first restart has no back-off.
func memberSpec(policy core.RestartPolicy) *core.Spec {
	return &core.Spec{RestartPolicy: policy, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: time.Hour}}
}

// startMembers starts the containers of one service, each with its own spec.
func startMembers(h *harness, specs map[string]*core.Spec) {
	maps.Copy(h.specs, specs)
	h.sendSynced()
	for _, id := range slices.Sorted(maps.Keys(specs)) {
		h.create(runtime.Container{ID: id, Name: id, Labels: map[string]string{
			core.ComposeProject: "p", core.ComposeService: "web", core.ComposeNumber: id,
		}})
		h.engine.run(id)
	}
	synctest.Wait()
}

// probesSpec is a spec with these probes: startup on port 1, liveness on 2, readiness on
// 3.
func probesSpec(period time.Duration, probes ...core.ProbeType) *core.Spec {
	spec := memberSpec(core.Always)
	for _, probe := range probes {
		spec.Probes[probe] = tcpProbe(int(probe)+1, period, 1)
	}
	return spec
}

func TestEachMemberFollowsItsOwnPolicy(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		own     core.RestartPolicy // of those that exit with 0 and with 111
		other   core.RestartPolicy // of a third one, which exits with 1
		want    []string
	}{
		{"all Always", "201", core.Always, core.Always, []string{"start a0", "start b111", "start c1"}},
		{"all OnFailure", "202", core.OnFailure, core.OnFailure, []string{"start b111", "start c1"}},
		{"all Never", "204", core.Never, core.Never, nil},
		{"Always beside Never", "201 216", core.Always, core.Never, []string{"start a0", "start b111"}},
		{"OnFailure beside Never", "202 217", core.OnFailure, core.Never, []string{"start b111"}},
		{"Never beside Always", "204 219", core.Never, core.Always, []string{"start c1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			playWith(t, nil, nil, func(h *harness) {
				startMembers(h, map[string]*core.Spec{"a0": memberSpec(tt.own), "b111": memberSpec(tt.own), "c1": memberSpec(tt.other)})
				for id, code := range map[string]int{"a0": 0, "b111": 111, "c1": 1} {
					h.engine.exit(id, code)
				}
				pass(time.Hour)
				got := h.engine.calls()
				slices.Sort(got)
				if !slices.Equal(got, tt.want) {
					h.t.Errorf("calls %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// healthd restarts only the container whose probe failed.
func TestFailedProbeConcernsOneContainer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		probe   core.ProbeType
		failing string
		cause   core.Cause
	}{
		{"liveness", "209", core.Liveness, "b:2", core.ByLiveness},
		{"startup", "210", core.Startup, "b:1", core.ByStartup},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			playWith(t, nil, nil, func(h *harness) {
				h.probes.setResult(tt.failing, refused)
				spec := probesSpec(10*time.Second, tt.probe)
				spec.Probes[tt.probe].InitialDelay = time.Second
				startMembers(h, map[string]*core.Spec{"a": spec, "b": spec, "c": spec})
				first := h.view("b").State.Run.ID
				time.Sleep(500 * time.Millisecond)
				runs := map[string]runtime.Run{"a": h.view("a").State.Run.ID, "c": h.view("c").State.Run.ID}
				time.Sleep(600 * time.Millisecond) // the probe has failed once
				h.probes.setResult(tt.failing, prober.Result{Outcome: prober.Success})
				pass(time.Minute)
				if got, want := h.engine.calls(), []string{"stop b 30s", "start b"}; !slices.Equal(got, want) {
					h.t.Errorf("calls %v, want %v", got, want)
				}
				if s := h.view("b").State; s.Run.ID == first || s.Lasting.Restarts[tt.cause] != 1 || s.Run.LastExit.Reason == core.ReasonError {
					h.t.Errorf("b after its failed probe: %+v", s)
				}
				for id, run := range runs {
					if s := h.view(id).State; s.Run.ID != run || s.RestartCount() != 0 || !s.Conditions.Ready.Status {
						h.t.Errorf("%s was touched: %+v", id, s)
					}
				}
			})
		})
	}
}

// healthd starts one member whatever the liveness result of another one is.
func TestStartDoesNotWaitForLivenessOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		delay   time.Duration
		hangs   bool
		answer  prober.Outcome
		want    []string
	}{
		{"no result yet", "221", time.Hour, false, prober.Success, []string{"start b"}},
		{"under way", "221", 0, true, prober.Success, []string{"start b"}},
		{"Success", "221", 0, false, prober.Success, []string{"start b"}},
		{"Failure", "222", 0, false, prober.Failure, []string{"stop a 30s", "start b", "start a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			playWith(t, nil, nil, func(h *harness) {
				h.engine.stopTakes = 20 * time.Second
				h.probes.hanging["a:2"] = tt.hangs
				h.probes.setResult("a:2", prober.Result{Outcome: tt.answer})
				a := probesSpec(time.Hour, core.Liveness)
				a.Probes[core.Liveness].InitialDelay = tt.delay
				startMembers(h, map[string]*core.Spec{"a": a, "b": memberSpec(core.OnFailure)})
				h.probes.setResult("a:2", prober.Result{Outcome: prober.Success})
				h.engine.exit("b", 1)
				synctest.Wait()
				if s := h.view("b").State; s.Engine.State != runtime.Running || s.RestartCount() != 1 {
					h.t.Errorf("b was not started at once: %+v", s)
				}
				pass(time.Minute)
				if got := h.engine.calls(); !slices.Equal(got, tt.want) {
					h.t.Errorf("calls %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A startup probe delays the other probes of its own container, and of no other.
func TestStartupConcernsItsOwnContainer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		delay  time.Duration
		hangs  bool
		answer prober.Outcome
		want   []string
		asked  int // how often the container's other probes ran
	}{
		{"not run yet", time.Hour, false, prober.Success, []string{"start b"}, 0},
		{"under way", 0, true, prober.Success, []string{"start b"}, 0},
		{"Success", 0, false, prober.Success, []string{"start b"}, 1},
		{"Failure", 0, false, prober.Failure, []string{"stop a 30s", "start b", "start a"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "223")
			playWith(t, nil, nil, func(h *harness) {
				h.engine.stopTakes = 20 * time.Second
				h.probes.hanging["a:1"] = tt.hangs
				h.probes.setResult("a:1", prober.Result{Outcome: tt.answer})
				a := probesSpec(time.Hour, core.Startup, core.Liveness, core.Readiness)
				a.Probes[core.Startup].InitialDelay = tt.delay
				startMembers(h, map[string]*core.Spec{"a": a, "b": memberSpec(core.OnFailure)})
				h.engine.exit("b", 1)
				synctest.Wait()
				if s := h.view("b").State; s.Engine.State != runtime.Running || s.RestartCount() != 1 {
					h.t.Errorf("b was not started at once: %+v", s)
				}
				if live, ready := h.probes.timesAsked("a:2"), h.probes.timesAsked("a:3"); live != tt.asked || ready != tt.asked {
					h.t.Errorf("liveness ran %d times and readiness %d times, want %d", live, ready, tt.asked)
				}
				h.probes.setResult("a:1", prober.Result{Outcome: prober.Success})
				pass(time.Minute)
				if got := h.engine.calls(); !slices.Equal(got, tt.want) {
					h.t.Errorf("calls %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// healthd restarts a container under Always beside one under Never. While the engine is
// lost it waits.
func TestAlwaysBesideNever(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(*harness)
		want []string
	}{
		{"exited with 137", func(h *harness) {
			h.engine.exit("a", 137)
			h.engine.exit("b", 137)
		}, []string{"start a"}},
		{"unknown, and it has exited", func(h *harness) {
			loseEngine(h)
			h.engine.exit("a", 137)
			h.engine.exit("b", 137)
		}, []string{"start a"}},
		{"unknown, and a restart was pending", func(h *harness) {
			h.specs["a"].Publish.Drain = 5 * time.Second
			if err := h.Restart(h.t.Context(), "a"); err != nil {
				h.t.Error(err)
			}
			loseEngine(h)
			h.engine.exit("b", 137)
		}, []string{"stop a 30s", "start a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "224")
			playWith(t, nil, nil, func(h *harness) {
				startMembers(h, map[string]*core.Spec{"a": memberSpec(core.Always), "b": memberSpec(core.Never)})
				tt.act(h)
				pass(time.Minute)
				if v := h.view("a"); v.State.Lost && len(h.engine.calls()) != 0 {
					h.t.Fatalf("calls %v while the engine is unknown", h.engine.calls())
				}
				h.sendSynced()
				pass(time.Minute)
				if got := h.engine.calls(); !slices.Equal(got, tt.want) {
					h.t.Errorf("calls %v, want %v", got, tt.want)
				}
			})
		})
	}
}
