package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Wait is what a restart that a probe asked for waits for. It is zero when it need
// not wait.
type Wait struct {
	Reason string    // WaitGroupLimit, WaitRestartBudget or WaitHeld
	On     string    // whom it waits for, or what; for people
	Until  time.Time // when it is worth another look; zero when nobody knows
}

// failRun takes in that a run ought to be stopped. While the engine cannot be heard
// nothing is decided: the next failure comes here again.
func (t *stepper) failRun(cause Cause) {
	// Stopping a container that the engine then removes would destroy it.
	if !t.Lost && !t.c.AutoRemove && t.Action.Stopping == NoCause {
		t.Health.Failed = cause
	}
}

// MayFailRun says whether a restart may be asked for because of the input.
func (in *Input) MayFailRun() bool {
	return in.Kind == ProbeAnswered && in.Result.Outcome == prober.Failure || in.Kind == HookEnded && in.HookResult.Err != nil
}

// recoverRun takes a verdict back that had to wait for so long that the probe came round.
func (t *stepper) recoverRun(cause Cause) {
	if t.Health.Failed != cause {
		return
	}
	t.record(t.Health.Wait.Reason, "Container %s has recovered and need not be restarted", t.c.Name)
	t.Health.Failed, t.Health.Wait = NoCause, Wait{}
}

// stopFailedRun carries the verdict on a run out, if it need not wait.
func (t *stepper) stopFailedRun(in *Input) {
	wait := in.Wait
	if t.Run.Hooks[PostStart] == HookFailed { // no probe comes round to say so again
		t.failRun(ByPostStart)
	}
	switch {
	case t.Health.Failed == NoCause:
		t.Health.Wait = Wait{}
		return
	case t.Engine.State != runtime.Running, t.Draining(), t.Lost, t.Shutdown.Begun:
		t.Health.Failed, t.Health.Wait = NoCause, Wait{}
		return
	case t.Lasting.Held:
		wait = Wait{Reason: WaitHeld, Until: t.Lasting.HeldUntil}
	}
	if wait.Reason != "" {
		if wait.Reason != t.Health.Wait.Reason {
			t.recordWait(wait)
		}
		t.Health.Wait = wait
		return
	}
	cause := t.Health.Failed
	t.Health.Failed, t.Health.Wait = NoCause, Wait{}
	for _, probe := range []ProbeType{Startup, Liveness} {
		if y := &t.Health.Probes[probe]; causeOf(probe) == cause {
			y.OnHold, y.Run = true, 0
		}
	}
	last := ""
	if in.LastUp != "" {
		last = ", although it is the last one that is up in " + in.LastUp
	}
	t.record(EventKilling, "Container %s failed %s, %s%s", t.c.Name, failureOf(cause), t.whatFollows(), last)
	t.stop(cause)
}

// recordWait records why a restart waits. That the budget of the host is used up is
// one event for all.
func (t *stepper) recordWait(wait Wait) {
	switch wait.Reason {
	case WaitGroupLimit:
		t.record(WaitGroupLimit, "Container %s failed %s, its restart waits for %s", t.c.Name, failureOf(t.Health.Failed), wait.On)
	case WaitHeld:
		t.record(EventHeld, "Container %s failed %s, and is not restarted as it is held", t.c.Name, failureOf(t.Health.Failed))
	}
}

func causeOf(probe ProbeType) Cause {
	if probe == Startup {
		return ByStartup
	}
	return ByLiveness
}

func failureOf(cause Cause) string {
	switch cause {
	case ByStartup:
		return "startup probe"
	case ByLiveness:
		return "liveness probe"
	}
	return "its post_start hook"
}
