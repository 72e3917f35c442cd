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

// hookDesk makes hooks that end when the test says so, or when they are cut short.
// It notes what becomes of them among the calls to the engine.
type hookDesk struct {
	Prober
	engine *memoryEngine
	ends   chan prober.HookResult

	mu     sync.Mutex
	broken error // why no hook can be made
}

// lifeHouse is a house with such hooks, one or both of these.
func lifeHouse(t *testing.T, spec *core.Spec, hooks ...core.HookType) (*house, *hookDesk) {
	t.Helper()
	for _, hook := range hooks {
		h := &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{hook.Title()}}}
		if hook == core.PostStart {
			spec.Lifecycle.PostStart = h
		} else {
			spec.Lifecycle.PreStop = h
		}
	}
	h := open(t, spec)
	d := &hookDesk{Prober: h.probes, engine: h.engine, ends: make(chan prober.HookResult)}
	h.config.Prober = d
	return h, d
}

func (d *hookDesk) setBroken(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
}

func (d *hookDesk) Hook(h prober.LifecycleHandler, target prober.Target) (prober.Hook, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return nil, d.broken
	}
	return &deskHook{d, h.Exec.Command[0] + " of " + target.ID}, nil
}

type deskHook struct {
	desk *hookDesk
	name string
}

func (h *deskHook) Run(ctx context.Context) prober.HookResult {
	h.desk.engine.note("%s begins", h.name)
	select {
	case r := <-h.desk.ends:
		return r
	case <-ctx.Done():
		h.desk.engine.note("%s is cut short", h.name)
		return prober.HookResult{Err: context.Cause(ctx)}
	}
}

// lifeWait lets time go by and holds what has happened since the start against want.
func lifeWait(t *testing.T, h *house, d time.Duration, want ...string) {
	t.Helper()
	if d > 0 {
		time.Sleep(d)
	}
	synctest.Wait()
	if got := h.engine.madeCalls(); !slices.Equal(got, want) {
		t.Fatalf("happened: %q, want %q", got, want)
	}
}

// atOnce is a spec with both of the usual probes and no drain.
func atOnce() *core.Spec {
	spec := webSpec()
	spec.Publish.Drain = 0
	return spec
}

func TestPostStartComesAfterTheStartAndBeforeProbes(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		lifeWait(t, h, time.Minute, "PostStart of c1 begins")
		v := h.view(t, "c1")
		if _, reason, _ := v.Readiness(); reason != core.NotReadyPostStart || v.State.Conditions.Started.Status || h.probes.times("c1:1")+h.probes.times("c1:2") != 0 {
			t.Errorf("probed or ready before post_start has ended: %s, %+v", reason, v.State)
		}
		desk.ends <- prober.HookResult{}
		synctest.Wait()
		if v := h.view(t, "c1"); !v.State.Conditions.Ready.Status || h.probes.times("c1:1") != 1 {
			t.Errorf("not ready after post_start: %+v", v.State)
		}
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		lifeWait(t, h, time.Second, "PostStart of c1 begins", "stop c1 30s", "start c1", "PostStart of c1 begins")
		desk.ends <- prober.HookResult{}
	})
}

// Somebody else has seen to it, or an earlier healthd.
func TestNoPostStartForWhatWasFoundRunning(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, _ := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		h.engine.run("c1")
		h.synced()
		lifeWait(t, h, time.Minute)
		if !h.view(t, "c1").State.Conditions.Ready.Status {
			t.Error("a container found running is not ready")
		}
	})
}

func TestFailedPostStartStopsTheRun(t *testing.T) {
	t.Attr("kubelet", "241")
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		desk.ends <- prober.HookResult{Err: errors.New("exited with code 1")}
		lifeWait(t, h, time.Second, "PostStart of c1 begins", "stop c1 30s", "start c1", "PostStart of c1 begins")
		if s := h.view(t, "c1").State; s.Lasting.Restarts[core.ByPostStart] != 1 || !slices.Contains(h.diary.reasons("n-c1"), core.EventFailedPostStartHook) {
			t.Errorf("restarts %v, events %v", s.Lasting.Restarts, h.diary.reasons("n-c1"))
		}
		desk.ends <- prober.HookResult{}
	})
}

func TestPostStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		lifeWait(t, h, core.PostStartTimeout, "PostStart of c1 begins")
		lifeWait(t, h, 2*time.Second, "PostStart of c1 begins", "PostStart of c1 is cut short", "stop c1 30s", "start c1", "PostStart of c1 begins")
		desk.ends <- prober.HookResult{}
	})
}

// A hook that could not be asked says nothing of the container.
func TestPostStartThatCannotBeMadeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		desk.setBroken(errors.New("nobody knows the runtime"))
		h.synced()
		h.engine.run("c1")
		lifeWait(t, h, core.HookRetry-time.Millisecond)
		desk.setBroken(nil)
		lifeWait(t, h, 2*time.Millisecond, "PostStart of c1 begins")
		desk.ends <- prober.HookResult{}
		synctest.Wait()
		if v := h.view(t, "c1"); !v.State.Conditions.Ready.Status || v.State.RestartCount() != 0 {
			t.Errorf("after the second try: %+v", v.State)
		}
	})
}

func TestPreStopComesBeforeTheStop(t *testing.T) {
	t.Attr("kubelet", "238")
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, webSpec(), core.PreStop)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.probes.say("c1:1", refused)
		lifeWait(t, h, 30*time.Second) // the third failure; now it drains for 5 s
		lifeWait(t, h, 5*time.Second+time.Millisecond, "PreStop of c1 begins")
		h.probes.say("c1:1", prober.Result{Outcome: prober.Success})
		v := h.view(t, "c1")
		if x := v.Waiting(); v.State.Conditions.Ready.Status || x == nil || !strings.Contains(x.Message, "pre_stop hook runs") {
			t.Errorf("while pre_stop runs: ready %v, waits for %+v", v.State.Conditions.Ready.Status, x)
		}
		time.Sleep(8*time.Second - time.Millisecond)
		desk.ends <- prober.HookResult{}
		lifeWait(t, h, 0, "PreStop of c1 begins", "stop c1 22s", "start c1")
	})
}

func TestPreStopMayTakeAllOfTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := lifeHouse(t, atOnce(), core.PreStop)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		lifeWait(t, h, 30*time.Second-1, "PreStop of c1 begins")
		lifeWait(t, h, time.Second, "PreStop of c1 begins", "PreStop of c1 is cut short", "stop c1 2s", "start c1")
		if got := h.diary.reasons("n-c1"); !slices.Contains(got, core.EventFailedPreStopHook) {
			t.Errorf("events %v", got)
		}
	})
}

// A hook may not run twice, so unlike a probe it does not end with the address.
func TestNewAddressDoesNotEndAHook(t *testing.T) {
	for _, hook := range []core.HookType{core.PostStart, core.PreStop} {
		t.Run(hook.Title(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, desk := lifeHouse(t, atOnce(), hook)
				defer h.close(t)
				h.synced()
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
				h.engine.deliver(h.engine.seen("c1"))
				lifeWait(t, h, time.Second, hook.Title()+" of c1 begins")
				desk.ends <- prober.HookResult{}
				synctest.Wait()
				if s := h.view(t, "c1").State; !s.Conditions.Ready.Status {
					t.Errorf("the end of the hook was not heard: %+v", s)
				}
			})
		})
	}
}

func TestRemovedContainerEndsItsHook(t *testing.T) {
	for _, hook := range []core.HookType{core.PostStart, core.PreStop} {
		t.Run(hook.Title(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := lifeHouse(t, atOnce(), hook)
				defer h.close(t)
				h.synced()
				h.engine.run("c1")
				synctest.Wait()
				if hook == core.PreStop {
					if err := h.Restart(t.Context(), "c1"); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				h.removes("c1")
				lifeWait(t, h, time.Minute, hook.Title()+" of c1 begins", hook.Title()+" of c1 is cut short")
			})
		})
	}
}

// The end of a run ends its hook, and what that says is nothing to the next run.
func TestHookOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PostStart)
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		first := h.view(t, "c1").State.Run.ID
		h.engine.exit("c1", 1)
		synctest.Wait()
		got := h.engine.madeCalls()
		slices.Sort(got[1:]) // the old hook's end and the new one's beginning are nobody's order
		if want := []string{"PostStart of c1 begins", "PostStart of c1 begins", "PostStart of c1 is cut short", "start c1"}; !slices.Equal(got, want) {
			t.Fatalf("happened: %q, want %q", got, want)
		}
		for _, late := range []hookEnded{
			{id: "c1", run: first, hook: core.PostStart},
			{id: "c1", run: first, hook: core.PostStart, result: prober.HookResult{Err: errors.New("exited with code 1")}},
			{id: "gone", run: first, hook: core.PostStart},
		} {
			_ = h.send(t.Context(), &late)
		}
		if s := h.view(t, "c1").State; s.Run.Hooks[core.PostStart] != core.HookRunning || s.Conditions.Started.Status || s.Action.Stopping != core.NoCause {
			t.Errorf("an earlier run's hook counted: %+v", s)
		}
		desk.ends <- prober.HookResult{}
		synctest.Wait()
		if s := h.view(t, "c1").State; !s.Conditions.Ready.Status || s.Lasting.Restarts[core.ByExit] != 1 {
			t.Errorf("after its own hook: %+v", s)
		}
	})
}

func TestShutdownEndsPostStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := lifeHouse(t, atOnce(), core.PostStart)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		begun := time.Now()
		h.close(t)
		if took := time.Since(begun); took != 0 {
			t.Errorf("the shutdown took %v", took)
		}
		lifeWait(t, h, 0, "PostStart of c1 begins", "PostStart of c1 is cut short")
	})
}

// A stop that is under way is finished with its hook.
func TestShutdownWaitsForPreStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, desk := lifeHouse(t, atOnce(), core.PreStop)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		h.stop()
		lifeWait(t, h, 10*time.Second, "PreStop of c1 begins")
		desk.ends <- prober.HookResult{}
		h.close(t)
		lifeWait(t, h, 0, "PreStop of c1 begins", "stop c1 20s", "start c1")
	})
}
