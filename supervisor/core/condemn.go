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

// condemn takes in that a run ought to be stopped. While the engine cannot be heard
// nothing is decided: the next failure comes here again.
func (t *stepper) condemn(cause Cause) {
	// Stopping a container that the engine then removes would destroy it.
	if !t.Lost && !t.c.AutoRemove && t.Stopping == NoCause {
		t.Condemned = cause
	}
}

// mayCondemn says whether a restart may be asked for because of the input.
func (in *Input) MayStop() bool {
	return in.Kind == ProbeAnswered && in.Result.Outcome == prober.Failure || in.Kind == HookEnded && in.HookResult.Err != nil
}

// spare takes a verdict back that had to wait for so long that the probe came round.
func (t *stepper) spare(cause Cause) {
	if t.Condemned != cause {
		return
	}
	t.record(t.Wait.Reason, "Container %s has recovered and need not be restarted", t.c.Name)
	t.Condemned, t.Wait = NoCause, Wait{}
}

// judge carries the verdict on a run out, if it need not wait.
func (t *stepper) judge(in *Input) {
	wait := in.Wait
	if t.Hooks[PostStart] == HookFailed { // no probe comes round to say so again
		t.condemn(ByPostStart)
	}
	switch {
	case t.Condemned == NoCause:
		t.Wait = Wait{}
		return
	case t.Engine != runtime.Running, t.Draining(), t.Lost, t.ShuttingDown:
		t.Condemned, t.Wait = NoCause, Wait{}
		return
	case t.Held:
		wait = Wait{Reason: WaitHeld, Until: t.HeldUntil}
	}
	if wait.Reason != "" {
		if wait.Reason != t.Wait.Reason {
			t.tellWait(wait)
		}
		t.Wait = wait
		return
	}
	cause := t.Condemned
	t.Condemned, t.Wait = NoCause, Wait{}
	for _, probe := range []ProbeType{Startup, Liveness} {
		if y := &t.Tallies[probe]; causeOf(probe) == cause {
			y.OnHold, y.Length = true, 0
		}
	}
	last := ""
	if in.LastUp != "" {
		last = ", although it is the last one that is up in " + in.LastUp
	}
	t.record(EventKilling, "Container %s failed %s, %s%s", t.c.Name, failedOf(cause), t.afterStop(), last)
	t.stop(cause)
}

// tellWait records why a restart waits. That the budget of the host is used up is
// one event for all.
func (t *stepper) tellWait(wait Wait) {
	switch wait.Reason {
	case WaitGroupLimit:
		t.record(WaitGroupLimit, "Container %s failed %s, its restart waits for %s", t.c.Name, failedOf(t.Condemned), wait.On)
	case WaitHeld:
		t.record(EventHeld, "Container %s failed %s, and is not restarted as it is held", t.c.Name, failedOf(t.Condemned))
	}
}

func causeOf(probe ProbeType) Cause {
	if probe == Startup {
		return ByStartup
	}
	return ByLiveness
}

func failedOf(cause Cause) string {
	switch cause {
	case ByStartup:
		return "startup probe"
	case ByLiveness:
		return "liveness probe"
	}
	return "its post_start hook"
}
