package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// fakeHooks makes hooks that end when the test sends a result, or when they are
// cancelled. They note their begin and cancellation among the engine's calls.
type fakeHooks struct {
	Prober
	engine  *fakeEngine
	results chan prober.HookResult

	mu        sync.Mutex
	makeError error // why Hook fails; nil: it does not
}

// newHookHarness is a harness with one or both of these hooks.
func newHookHarness(t *testing.T, spec *core.Spec, hooks ...core.HookType) (*harness, *fakeHooks) {
	t.Helper()
	for _, hook := range hooks {
		h := &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{hook.Title()}}}
		if hook == core.PostStart {
			spec.Lifecycle.PostStart = h
		} else {
			spec.Lifecycle.PreStop = h
		}
	}
	h := newHarness(t, spec)
	d := &fakeHooks{Prober: h.probes, engine: h.engine, results: make(chan prober.HookResult)}
	h.config.Prober = d
	return h, d
}

func (d *fakeHooks) setMakeError(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.makeError = err
}

func (d *fakeHooks) Hook(h prober.LifecycleHandler, target prober.Target) (prober.Hook, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.makeError != nil {
		return nil, d.makeError
	}
	return &fakeHook{d, h.Exec.Command[0] + " of " + target.ID}, nil
}

type fakeHook struct {
	hooks *fakeHooks
	name  string
}

func (h *fakeHook) Run(ctx context.Context) prober.HookResult {
	h.hooks.engine.noteCall("%s began", h.name)
	select {
	case r := <-h.hooks.results:
		return r
	case <-ctx.Done():
		h.hooks.engine.noteCall("%s was cancelled", h.name)
		return prober.HookResult{Err: context.Cause(ctx)}
	}
}

// wantCalls waits for d and checks all calls since the start.
func wantCalls(t *testing.T, h *harness, d time.Duration, want ...string) {
	t.Helper()
	if d > 0 {
		time.Sleep(d)
	}
	synctest.Wait()
	if got := h.engine.calls(); !slices.Equal(got, want) {
		t.Fatalf("calls %q, want %q", got, want)
	}
}

// noDrainSpec is webSpec without a drain.
func noDrainSpec() *core.Spec {
	spec := webSpec()
	spec.Publish.Drain = 0
	return spec
}

func TestPostStartComesAfterTheStartAndBeforeProbes(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		wantCalls(t, h, time.Minute, "PostStart of c1 began")
		v := h.view("c1")
		if _, reason, _ := v.Readiness(); reason != core.NotReadyPostStart || v.State.Conditions.Started.Status || h.probes.timesAsked("c1:1")+h.probes.timesAsked("c1:2") != 0 {
			t.Errorf("probed or ready before post_start has ended: %s, %+v", reason, v.State)
		}
		hooks.results <- prober.HookResult{}
		synctest.Wait()
		if v := h.view("c1"); !v.State.Conditions.Ready.Status || h.probes.timesAsked("c1:1") != 1 {
			t.Errorf("not ready after post_start: %+v", v.State)
		}
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, h, time.Second, "PostStart of c1 began", "stop c1 30s", "start c1", "PostStart of c1 began")
		hooks.results <- prober.HookResult{}
	})
}

// post_start was run before, by an earlier healthd or not at all.
func TestNoPostStartForRunningContainers(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		h.engine.run("c1")
		h.sendSynced()
		wantCalls(t, h, time.Minute)
		if !h.view("c1").State.Conditions.Ready.Status {
			t.Error("a container found running is not ready")
		}
	})
}

func TestFailedPostStartStopsTheRun(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		hooks.results <- prober.HookResult{Err: errors.New("exited with code 1")}
		wantCalls(t, h, time.Second, "PostStart of c1 began", "stop c1 30s", "start c1", "PostStart of c1 began")
		if s := h.view("c1").State; s.Lasting.Restarts[core.ByPostStart] != 1 || !slices.Contains(h.journal.reasons("n-c1"), core.EventFailedPostStartHook) {
			t.Errorf("restarts %v, events %v", s.Lasting.Restarts, h.journal.reasons("n-c1"))
		}
		hooks.results <- prober.HookResult{}
	})
}

func TestPostStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		wantCalls(t, h, core.PostStartTimeout, "PostStart of c1 began")
		wantCalls(t, h, 2*time.Second, "PostStart of c1 began", "PostStart of c1 was cancelled", "stop c1 30s", "start c1", "PostStart of c1 began")
		hooks.results <- prober.HookResult{}
	})
}

// A hook that cannot be run says nothing about the container.
func TestUnbuiltPostStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		hooks.setMakeError(errors.New("unknown runtime"))
		h.sendSynced()
		h.engine.run("c1")
		wantCalls(t, h, core.HookRetry-time.Millisecond)
		hooks.setMakeError(nil)
		wantCalls(t, h, 2*time.Millisecond, "PostStart of c1 began")
		hooks.results <- prober.HookResult{}
		synctest.Wait()
		if v := h.view("c1"); !v.State.Conditions.Ready.Status || v.State.RestartCount() != 0 {
			t.Errorf("after the second try: %+v", v.State)
		}
	})
}

func TestPreStopComesBeforeTheStop(t *testing.T) {
	t.Attr("kubelet", "238")
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, webSpec(), core.PreStop)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		h.probes.setResult("c1:1", refused)
		wantCalls(t, h, 30*time.Second) // the third failure; it now drains for 5 s
		wantCalls(t, h, 5*time.Second+time.Millisecond, "PreStop of c1 began")
		h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success})
		v := h.view("c1")
		if x := v.Waiting(); v.State.Conditions.Ready.Status || x == nil || !strings.Contains(x.Message, "pre_stop hook runs") {
			t.Errorf("while pre_stop runs: ready %v, waits for %+v", v.State.Conditions.Ready.Status, x)
		}
		time.Sleep(8*time.Second - time.Millisecond)
		hooks.results <- prober.HookResult{}
		wantCalls(t, h, 0, "PreStop of c1 began", "stop c1 22s", "start c1")
	})
}

func TestPreStopMayTakeTheWholeGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHookHarness(t, noDrainSpec(), core.PreStop)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, h, 30*time.Second-1, "PreStop of c1 began")
		wantCalls(t, h, time.Second, "PreStop of c1 began", "PreStop of c1 was cancelled", "stop c1 2s", "start c1")
		if got := h.journal.reasons("n-c1"); !slices.Contains(got, core.EventFailedPreStopHook) {
			t.Errorf("events %v", got)
		}
	})
}

// A hook may not run twice, so a new address does not end it, as it ends a probe.
func TestNewAddressDoesNotEndAHook(t *testing.T) {
	for _, hook := range []core.HookType{core.PostStart, core.PreStop} {
		t.Run(hook.Title(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, hooks := newHookHarness(t, noDrainSpec(), hook)
				defer h.close()
				h.sendSynced()
				h.engine.run("c1")
				synctest.Wait()
				if hook == core.PreStop {
					if err := h.Restart(t.Context(), "c1"); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				h.engine.mu.Lock()
				h.engine.containers["c1"].Address = "127.0.0.9"
				h.engine.mu.Unlock()
				h.engine.deliver(h.engine.observation("c1"))
				wantCalls(t, h, time.Second, hook.Title()+" of c1 began")
				hooks.results <- prober.HookResult{}
				synctest.Wait()
				if s := h.view("c1").State; !s.Conditions.Ready.Status {
					t.Errorf("the end of the hook was not noticed: %+v", s)
				}
			})
		})
	}
}

func TestRemovedContainerEndsItsHook(t *testing.T) {
	for _, hook := range []core.HookType{core.PostStart, core.PreStop} {
		t.Run(hook.Title(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := newHookHarness(t, noDrainSpec(), hook)
				defer h.close()
				h.sendSynced()
				h.engine.run("c1")
				synctest.Wait()
				if hook == core.PreStop {
					if err := h.Restart(t.Context(), "c1"); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				h.remove("c1")
				wantCalls(t, h, time.Minute, hook.Title()+" of c1 began", hook.Title()+" of c1 was cancelled")
			})
		})
	}
}

// The end of a run ends its hook. The hook's result does not count for the next run.
func TestHookOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PostStart)
		defer h.close()
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		first := h.view("c1").State.Run.ID
		h.engine.exit("c1", 1)
		synctest.Wait()
		got := h.engine.calls()
		slices.Sort(got[1:]) // the old hook may end before or after the new one begins
		if want := []string{"PostStart of c1 began", "PostStart of c1 began", "PostStart of c1 was cancelled", "start c1"}; !slices.Equal(got, want) {
			t.Fatalf("calls %q, want %q", got, want)
		}
		for _, late := range []hookEnded{
			{id: "c1", run: first, hook: core.PostStart},
			{id: "c1", run: first, hook: core.PostStart, result: prober.HookResult{Err: errors.New("exited with code 1")}},
			{id: "gone", run: first, hook: core.PostStart},
		} {
			_ = h.send(t.Context(), &late)
		}
		if s := h.view("c1").State; s.Run.Hooks[core.PostStart] != core.HookRunning || s.Conditions.Started.Status || s.Action.Stopping != core.NoCause {
			t.Errorf("an earlier run's hook counted: %+v", s)
		}
		hooks.results <- prober.HookResult{}
		synctest.Wait()
		if s := h.view("c1").State; !s.Conditions.Ready.Status || s.Lasting.Restarts[core.ByExit] != 1 {
			t.Errorf("after its own hook: %+v", s)
		}
	})
}

func TestShutdownEndsPostStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHookHarness(t, noDrainSpec(), core.PostStart)
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		began := time.Now()
		h.close()
		if took := time.Since(began); took != 0 {
			t.Errorf("the shutdown took %v", took)
		}
		wantCalls(t, h, 0, "PostStart of c1 began", "PostStart of c1 was cancelled")
	})
}

// healthd finishes a stop that is under way, with its hook.
func TestShutdownWaitsForPreStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, hooks := newHookHarness(t, noDrainSpec(), core.PreStop)
		h.sendSynced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		h.stop()
		wantCalls(t, h, 10*time.Second, "PreStop of c1 began")
		hooks.results <- prober.HookResult{}
		h.close()
		wantCalls(t, h, 0, "PreStop of c1 began", "stop c1 20s", "start c1")
	})
}
