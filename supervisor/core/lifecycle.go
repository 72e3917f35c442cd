package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// HookType is one of the two lifecycle hooks. It indexes arrays.
type HookType uint8

// The lifecycle hooks.
const (
	PostStart HookType = iota
	PreStop
	numHooks = 2
)

// Title returns the name used in events, as the kubelet writes it.
func (h HookType) Title() string { return [...]string{"PostStart", "PreStop"}[h] }

// HookState is how far a hook of the present run is.
type HookState uint8

// The states of a hook.
const (
	HookIdle HookState = iota // nothing to be run, or not now
	HookDue
	HookRunning
	HookDone
	HookFailed // post_start only: the run is of no use
)

// PostStartTimeout bounds a post_start hook; a sleep of just that long ends well. The
// kubelet waits for ever, and with it everything else that it does for the container.
const PostStartTimeout = 5 * time.Minute

// HookRetry is how long a post_start hook that could not be run waits before it is
// tried again.
const HookRetry = 10 * time.Second

// postStartPending says that the post_start hook of the run has not ended well yet. Until
// then the container is not started and nothing is probed.
func (s *State) postStartPending() bool {
	return s.Run.Hooks[PostStart] != HookIdle && s.Run.Hooks[PostStart] != HookDone
}

// runPostStart runs the post_start hook, if it is due.
func (t *stepper) runPostStart() {
	if !t.postStartDue() || t.now.Before(t.Health.HookAt) {
		return
	}
	t.Run.Hooks[PostStart] = HookRunning
	t.fx = append(t.fx, Effect{Kind: RunHook, Hook: PostStart, Grace: PostStartTimeout + time.Second})
}

// postStartDue says that nothing but time keeps the post_start hook from running.
func (s *State) postStartDue() bool {
	return s.Run.Hooks[PostStart] == HookDue && s.Engine.State == runtime.Running && !s.Draining() && !s.Lost && !s.Shutdown.Begun
}

// runPreStop runs the pre_stop hook before the first call of a stop and says whether
// the call has to wait for it.
func (t *stepper) runPreStop() (wait bool) {
	if t.Run.Hooks[PreStop] == HookIdle && t.spec.Lifecycle.PreStop != nil && configuredGrace(t.spec, t.c, t.Action.Stopping) > 0 {
		t.Run.Hooks[PreStop], t.Health.HookAt = HookRunning, t.now
		t.fx = append(t.fx, Effect{Kind: RunHook, Hook: PreStop, Grace: t.Action.Grace})
	}
	return t.Run.Hooks[PreStop] == HookRunning
}

// hookEnded takes in how a hook of the present run ended.
func (t *stepper) hookEnded(hook HookType, r prober.HookResult) {
	if t.Run.Hooks[hook] != HookRunning {
		return
	}
	if r.HTTPFallback {
		t.Totals.HTTPFallbacks++
		t.record(EventLifecycleHTTPFallback, "%s hook of container %s: the server answered https in plain HTTP and was asked again without TLS", hook.Title(), t.c.Name)
	}
	t.Run.Hooks[hook] = HookDone
	switch {
	case hook == PreStop:
		t.preStopEnded(r.Err)
	case r.Err == nil:
		t.setStarted(t.spec.Probes[Startup] == nil)
	case !t.Engine.State.Alive(), t.Draining(): // it ends; should it survive, that is seen then
		t.Run.Hooks[PostStart] = HookFailed
		t.recordHookFailure(PostStart, r.Err)
	case r.NotAsked || t.Lost: // nothing is known of the container
		if t.Health.HookAt.IsZero() { // told once
			t.record(EventFailedPostStartHook, "%s, trying again every %v: %v", whyIgnored(r), HookRetry, r.Err)
		}
		t.Run.Hooks[PostStart], t.Health.HookAt = HookDue, t.now.Add(HookRetry)
	default:
		t.postStartFailed(r.Err)
	}
}

// whyIgnored says why a failure of the post_start hook counts for nothing.
func whyIgnored(r prober.HookResult) string {
	if r.NotAsked {
		return "PostStartHook could not be run"
	}
	return "PostStartHook failed while the engine could not be heard"
}

// preStopEnded goes on with the stop: what the hook has used of the grace period is
// gone.
func (t *stepper) preStopEnded(err error) {
	t.recordHookFailure(PreStop, err)
	t.Action.Grace = max(t.Action.Grace-t.now.Sub(t.Health.HookAt), MinGrace)
}

// postStartFailed stops a run that could not be made ready for use.
func (t *stepper) postStartFailed(err error) {
	t.recordHookFailure(PostStart, err)
	t.Run.Hooks[PostStart] = HookFailed
	t.failRun(ByPostStart)
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

// whatFollows says what follows the stop of a run that failed.
func (t *stepper) whatFollows() string {
	switch {
	case t.spec.RestartPolicy == Never && len(t.spec.RestartRules) > 0:
		return "will be stopped (restart policy Never), and restarted if a restart rule wants that"
	case t.spec.RestartPolicy == Never:
		return "will be stopped (restart policy Never)"
	}
	return "will be restarted"
}
