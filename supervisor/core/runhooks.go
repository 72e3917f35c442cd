package core

import (
	"time"

	"healthd/prober"
)

func (t *stepper) runPostStart() {
	if !t.postStartDue() || t.now.Before(t.Health.HookAt) {
		return
	}
	t.Run.Hooks[PostStart] = HookRunning
	t.fx = append(t.fx, Effect{Kind: RunHook, Hook: PostStart, Grace: PostStartTimeout + time.Second})
}

// runPreStop runs the pre_stop hook before the first call of a stop, and says whether the
// call has to wait for the hook.
func (t *stepper) runPreStop() (wait bool) {
	if t.Run.Hooks[PreStop] == HookIdle && t.spec.Lifecycle.PreStop != nil && configuredGrace(t.spec, t.c, t.Action.Stopping) > 0 {
		t.Run.Hooks[PreStop], t.Health.HookAt = HookRunning, t.now
		t.fx = append(t.fx, Effect{Kind: RunHook, Hook: PreStop, Grace: t.Action.Grace})
	}
	return t.Run.Hooks[PreStop] == HookRunning
}

func (t *stepper) hookEnded(hook HookType, r prober.HookResult) {
	if t.Run.Hooks[hook] != HookRunning {
		return
	}
	if r.HTTPFallback {
		t.Totals.HTTPFallbacks++
		t.record(EventLifecycleHTTPFallback, "%s hook of container %s: the server answered HTTPS with plain HTTP, so healthd asked again without TLS", hook.Title(), t.c.Name)
	}
	t.Run.Hooks[hook] = HookDone
	switch {
	case hook == PreStop:
		t.preStopEnded(r.Err)
	case r.Err == nil:
		t.setStarted(t.spec.Probes[Startup] == nil)
	case !t.Engine.State.Alive(), t.Draining(): // stopFailedRun stops the run, if it survives
		t.Run.Hooks[PostStart] = HookFailed
		t.recordHookFailure(PostStart, r.Err)
	case r.NotAsked || t.Lost: // the failure tells nothing about the container
		if t.Health.HookAt.IsZero() { // record it once
			t.record(EventFailedPostStartHook, "%s (healthd tries again every %v): %v", whyIgnored(r), HookRetry, r.Err)
		}
		t.Run.Hooks[PostStart], t.Health.HookAt = HookDue, t.now.Add(HookRetry)
	default:
		t.postStartFailed(r.Err)
	}
}

// whyIgnored says why a failure of the post_start hook does not count.
func whyIgnored(r prober.HookResult) string {
	if r.NotAsked {
		return "PostStartHook could not run"
	}
	return "PostStartHook failed while healthd could not reach the engine"
}

func (t *stepper) postStartFailed(err error) {
	t.recordHookFailure(PostStart, err)
	t.Run.Hooks[PostStart] = HookFailed
	t.failRun(ByPostStart)
}

// preStopEnded subtracts the hook's time from the grace period, and the stop goes on.
func (t *stepper) preStopEnded(err error) {
	t.recordHookFailure(PreStop, err)
	t.Action.Grace = max(t.Action.Grace-t.now.Sub(t.Health.HookAt), MinGrace)
}

func (t *stepper) recordHookFailure(hook HookType, err error) {
	if err == nil {
		return
	}
	reason := EventFailedPostStartHook
	if hook == PreStop {
		reason = EventFailedPreStopHook
	}
	t.record(reason, "%sHook failed: %v", hook.Title(), err)
}
