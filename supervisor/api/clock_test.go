package api

import (
	"testing"
	"time"
	"unsafe"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// beforeStep returns t as it was made before the clock was set ahead by step, which is in whole seconds.
func beforeStep(t time.Time, step time.Duration) time.Time {
	const nanosecondBits = 30 // below the seconds of the wall clock, in a time with a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(int64(step/time.Second) << nanosecondBits)
	return t
}

// What is shown is what remains, or has passed, and not what a clock says that was set meanwhile.
func TestTimesAfterTheClockWasSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		now := time.Now()
		in, ago := beforeStep(now.Add(17*time.Second), step), beforeStep(now.Add(-3*time.Minute), step)
		v := readyContainer("web-1")
		v.State.Lasting.HeldHere, v.State.Lasting.HeldHereUntil = true, in
		v.State.Conditions.Ready.Since = ago
		v.State.Health.Probes[core.Readiness].LastAt = ago
		s := newStatus(v, now)
		ready := s.Conditions[2]
		steps := nextByClock(v, now)
		for what, got := range map[string]time.Time{"hold": s.HeldUntil, "next": steps[len(steps)-1].At} {
			if got != now.Add(17*time.Second).Round(0).UTC() {
				t.Errorf("clock set by %v: %s at %v, it is %v", step, what, got, now)
			}
		}
		for what, got := range map[string]time.Time{"since": *ready.LastTransitionTime, "probe": *ready.LastProbeTime, "glance": newGlance(v, now).Since} {
			if got != now.Add(-3*time.Minute).Round(0).UTC() {
				t.Errorf("clock set by %v: %s at %v, it is %v", step, what, got, now)
			}
		}
		ended := readyContainer("web-1")
		ended.State.Engine.State = runtime.Exited
		ended.State.Action.Restart, ended.State.Action.NotBefore = core.ByExit, in
		ended.State.Lasting.Backoff.Delay = 20 * time.Second
		if w := newStatus(ended, now).State.Waiting; w == nil || w.Until != now.Add(17*time.Second).Round(0).UTC() || newGlance(ended, now).Until != w.Until {
			t.Errorf("clock set by %v: it waits until %+v, it is %v", step, w, now)
		}
	}
}
