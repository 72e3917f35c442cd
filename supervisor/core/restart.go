package core

import (
	"slices"
	"time"

	"healthd/runtime"
)

// shouldStart is the restart decision. (kubelet ShouldContainerBeRestarted) What
// healthd stopped for a failure is started again under OnFailure also when it exited
// with 0.
func (t *stepper) shouldStart(cause Cause) bool {
	switch {
	case t.c.AutoRemove:
		return false
	case cause == ByOperator:
		return true
	case cause == ByExit && t.enginePolicy():
		return false
	case t.spec.ruleApplies(t.Run.Exit.Code):
		return true
	case cause != ByExit:
		return t.spec.RestartPolicy != Never
	}
	switch t.spec.RestartPolicy {
	case Always:
		return true
	case OnFailure:
		return t.Run.Exit.Code != 0
	}
	return false
}

// ruleApplies says whether a restart rule wants a start after that exit code.
func (spec *Spec) ruleApplies(code int) bool {
	return slices.ContainsFunc(spec.RestartRules, func(r RestartRule) bool {
		return slices.Contains(r.ExitCodes, code) == (r.Operator == In)
	})
}

// enginePolicy says that the engine itself restarts the container when it exits.
func (t *stepper) enginePolicy() bool {
	return t.c.RestartPolicy != "" && t.c.RestartPolicy != "no"
}

// lateNewsPause is how long the start of a run that once survived a stopping signal
// waits for news that its end was asked for after all, with a long timeout.
const lateNewsPause = 2 * time.Second

// scheduleStart plans the start that follows the end of the run, counted from it.
func (t *stepper) scheduleStart(cause Cause) {
	t.Action.Restart, t.Action.NotBefore = cause, t.now
	if cause != ByOperator {
		t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, t.runDuration())
		// By the engine's clock, but not longer than by ours.
		since := max(0, min(t.now.Sub(t.Run.Exit.FinishedAt), t.now.Sub(t.Health.AliveAt)))
		t.Action.NotBefore = t.now.Add(max(0, t.Lasting.Backoff.Delay-since))
		if t.Lasting.Backoff.Delay > 0 {
			t.record(EventBackOff, "Back-off %v restarting failed container %s", t.Lasting.Backoff.Delay, t.c.Name)
		}
	}
	if t.Ending.Survived && cause == ByExit {
		t.Action.NotBefore = later(t.Action.NotBefore, t.now.Add(lateNewsPause))
	}
	if t.Shutdown.Begun && !t.Shutdown.LeftOver {
		t.Action.NotBefore = t.now
	}
}

// grace is the time between the stop signal and the kill: as configured, but never
// under MinGrace.
func grace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	return max(configuredGrace(spec, c, cause), MinGrace)
}

// configuredGrace is the failed probe's grace period, else the spec's, else the
// container's own, else DefaultGrace.
func configuredGrace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	g := DefaultGrace
	if c.StopTimeout >= 0 {
		g = c.StopTimeout
	}
	if spec.TerminationGracePeriod > 0 {
		g = spec.TerminationGracePeriod
	}
	var p *ProbeSpec
	switch cause {
	case ByLiveness:
		p = spec.Probes[Liveness]
	case ByStartup:
		p = spec.Probes[Startup]
	}
	if p != nil && p.TerminationGracePeriod > 0 {
		g = p.TerminationGracePeriod
	}
	return g
}

// BackoffState is how far the back-off of an identity has grown.
type BackoffState struct {
	Active bool          // there was an end that is not forgotten yet
	Delay  time.Duration // given after the last end
}

// next returns the state after one more end of a run that lasted ran; its Delay
// is what to wait from that end. The first restart is at once, as in the kubelet
// (k8s#133472 has the discussion).
func (b Backoff) next(s BackoffState, ran time.Duration) BackoffState {
	switch {
	case !s.Active || ran > b.ResetAfter:
		return BackoffState{Active: true}
	case s.Delay == 0:
		return BackoffState{Active: true, Delay: min(b.Initial, b.Max)}
	}
	return BackoffState{Active: true, Delay: min(2*s.Delay, b.Max)}
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}
