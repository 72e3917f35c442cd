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

// wrongLabels runs a container and has a reload make its labels wrong, or begins with wrong ones.
func wrongLabels(t *testing.T, fromTheStart bool) *harness {
	t.Helper()
	wrong := func(runtime.Traits) (*core.Spec, error) { return nil, errors.New("wrong") }
	h := newHarnessWith(t, webSpec(), func(c *Config) {
		if fromTheStart {
			c.Resolve = wrong
		}
	})
	h.sendSynced()
	h.engine.run("a")
	pass(time.Minute)
	if err := h.Reload(t.Context(), wrong, core.Guard{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if v := h.view("a"); v.Invalid != "wrong" || !v.State.Engine.State.Alive() {
		t.Fatalf("view %+v", v)
	}
	return h
}

// signalled ends a run as a stop signal of somebody else does.
func (h *harness) signalled(id string) {
	h.event(runtime.Killed, id, 15)
	h.exitOnTerm(id)
	h.event(runtime.Stopped, id, 0)
}

// What ends a container while its labels are wrong is judged once they are right.
func TestEndsWhileLabelsAreWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		ends    func(*testing.T, *harness)
		policy  core.RestartPolicy
		started bool
	}{
		"crash":                   {func(_ *testing.T, h *harness) { h.engine.exit("a", 1) }, core.Always, true},
		"crash under Never":       {func(_ *testing.T, h *harness) { h.engine.exit("a", 1) }, core.Never, false},
		"done under OnFailure":    {func(_ *testing.T, h *harness) { h.engine.exit("a", 0) }, core.OnFailure, false},
		"crash under OnFailure":   {func(_ *testing.T, h *harness) { h.engine.exit("a", 1) }, core.OnFailure, true},
		"an operator's stop":      {func(_ *testing.T, h *harness) { h.signalled("a") }, core.Always, false},
		"crash after a new start": {func(_ *testing.T, h *harness) { h.signalled("a"); h.engine.run("a"); h.engine.exit("a", 1) }, core.Always, true},
		"stop after a crash":      {func(_ *testing.T, h *harness) { h.engine.exit("a", 1); h.engine.run("a"); h.signalled("a") }, core.Always, false},
		"wrong in another way": {func(t *testing.T, h *harness) {
			h.engine.exit("a", 1)
			if err := h.Reload(t.Context(), func(runtime.Traits) (*core.Spec, error) { return nil, errors.New("also") }, core.Guard{}); err != nil {
				t.Fatal(err)
			}
		}, core.Always, true},
		"stop, told of by too many signals": {func(_ *testing.T, h *harness) {
			for range maxHeard {
				h.event(runtime.Killed, "a", 1)
			}
			h.signalled("a")
		}, core.Always, false},
		"while healthd was not connected": {func(_ *testing.T, h *harness) {
			h.event(runtime.Lost, "", 0)
			h.engine.endRun("a", 1)
			h.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayUnknown})
			h.engine.deliver(h.engine.observation("a"))
			h.sendSynced()
		}, core.Always, false},
	} {
		for _, fromTheStart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := wrongLabels(t, fromTheStart)
					defer h.close()
					tt.ends(t, h)
					pass(time.Minute)
					if calls := h.engine.calls(); len(calls) > 0 {
						t.Fatalf("calls %v while the labels are wrong", calls)
					}
					spec := webSpec()
					spec.RestartPolicy = tt.policy
					h.reload(map[string]*core.Spec{"": spec})
					pass(time.Minute)
					if calls := h.engine.calls(); slices.Equal(calls, []string{"start a"}) != tt.started || len(calls) > 1 {
						t.Errorf("wrong from the start %v: calls %v, events %v", fromTheStart, calls, h.journal.reasons("n-a"))
					}
				})
			})
		}
	}
}
