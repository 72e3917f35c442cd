package core

import (
	"slices"
	"time"

	"healthd/runtime"
)

// BackoffState is how far the back-off of an identity has grown. The zero state: no end
// counts, and the next restart is at once.
type BackoffState struct {
	Active bool          // a run has ended, and no long run has reset the back-off since
	Delay  time.Duration // wait after the last end
}

// next returns the state after the end of a run that lasted ran. Its Delay is the wait
// from that end. The first restart is at once, as in the kubelet (discussed in
// k8s#133472).
func (b Backoff) next(s BackoffState, ran time.Duration) BackoffState {
	switch {
	case !s.Active || ran > b.ResetAfter:
		return BackoffState{Active: true}
	case s.Delay == 0:
		return BackoffState{Active: true, Delay: min(b.Initial, b.Max)}
	}
	return BackoffState{Active: true, Delay: min(2*s.Delay, b.Max)}
}

// shouldStart is the restart decision. (kubelet ShouldContainerBeRestarted) Under
// OnFailure healthd also starts a container that exited with 0 after healthd stopped it
// for a failed probe: the probe's failure counts.
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

// ruleApplies says whether a restart rule matches the exit code.
func (spec *Spec) ruleApplies(code int) bool {
	return slices.ContainsFunc(spec.RestartRules, func(r RestartRule) bool {
		return slices.Contains(r.ExitCodes, code) == (r.Operator == In)
	})
}

// enginePolicy says that the container has a restart policy of the engine's own, so the
// engine restarts it after an exit.
func (t *stepper) enginePolicy() bool {
	return t.c.RestartPolicy != "" && t.c.RestartPolicy != "no"
}

// lateNewsPause is how long a start waits for news of an operator's stop, when the run had
// survived a stop signal: an operator's stop with a long timeout looks like that, too.
const lateNewsPause = 2 * time.Second

// scheduleStart schedules the start after a run. The back-off counts from the end of the
// run, not from its news.
func (t *stepper) scheduleStart(cause Cause) {
	t.Action.Restart, t.Action.NotBefore = cause, t.now
	if cause != ByOperator {
		t.Lasting.Backoff = t.spec.Backoff.next(t.Lasting.Backoff, t.runDuration())
		// By the engine's clock, but no longer than by healthd's.
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

// grace returns the grace period of a stop, which is the time from the stop signal to the
// KILL: as configured, but at least MinGrace.
func grace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	return max(configuredGrace(spec, c, cause), MinGrace)
}

// configuredGrace returns the failed probe's grace period, else the spec's, else the
// container's own stop timeout, else DefaultGrace.
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
