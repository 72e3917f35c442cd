package api

import (
	"fmt"
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// next says what happens next to a container, and after which probe results something
// changes.
func next(v *core.View) []Next {
	if v.Spec == nil {
		return []Next{{What: "healthd does nothing until you fix this: " + v.Invalid}}
	}
	return append(nextSteps(v), nextHoldEnd(v)...)
}

// nextByClock is next with its times as the clock shows them now.
func nextByClock(v *core.View, now time.Time) []Next {
	all := next(v)
	for i := range all {
		all[i].At = core.ByClock(all[i].At, now)
	}
	return all
}

// nextSteps is next without the end of a hold.
func nextSteps(v *core.View) []Next {
	s := &v.State
	switch {
	case s.Action.Call == core.StopCall:
		return []Next{{What: "healthd is stopping it now"}}
	case s.Action.Call == core.StartCall:
		return []Next{{What: "healthd is starting it now"}}
	case s.Action.GaveUp && s.Action.Restart == core.ByExit:
		return []Next{{What: fmt.Sprintf("healthd has given up, after %v: it stays stopped until somebody resumes it (healthd resume %s) or starts it", v.Spec.GiveUp, v.Container.Name)}}
	case s.Lasting.Held() && s.Action.Restart == core.ByExit:
		return []Next{{What: "healthd starts it when the hold ends"}}
	case s.Action.Restart != core.NoCause && s.Lost:
		return []Next{{What: "healthd starts it when it can reach the engine again"}}
	case s.Action.Restart != core.NoCause && v.Container.NetworkOwnerGone:
		return []Next{{What: "healthd cannot start it, because the container whose network it shares is gone: recreate it"}}
	case s.Action.Restart != core.NoCause && s.Engine.NetworkAway:
		return []Next{{What: "healthd starts it when the container whose network it shares runs"}}
	case s.Request.Queued:
		return []Next{{What: "healthd starts it when " + core.FewerStarts}}
	case s.Action.Restart == core.ByExit: // of a stop of what does not run no engine tells
		return []Next{{s.Action.NotBefore, fmt.Sprintf(
			"healthd starts it. To keep it down: healthd hold %s (an engine's stop does nothing to a container that does not run)",
			v.Container.Name)}}
	case s.Action.Restart != core.NoCause:
		return []Next{{s.Action.NotBefore, "healthd starts it"}}
	case s.InDoubt():
		return []Next{{What: v.Waiting().Message}}
	case s.Draining() && s.Action.Stopping != core.NoCause:
		return nextStop(v)
	case s.Draining() && s.Lost:
		return []Next{{What: "an operator sent it a stop signal: healthd sees whether it has ended" + whenFree(v)}}
	case s.Draining():
		return []Next{{What: "it is about to stop: an operator sent it a stop signal"}}
	case !s.EngineGivesUpAt().IsZero():
		return []Next{{s.EngineGivesUpAt(), fmt.Sprintf(
			"unless the engine's own restart policy (%s) has started it by then, healthd's decides (%s)",
			v.Container.RestartPolicy, v.Spec.RestartPolicy)}}
	case !s.Engine.State.Alive():
		return []Next{{What: nextAfterEnd(v)}}
	}
	return append(append(nextVerdict(v), nextInRun(v)...), Next{What: "if it exits by itself: " + afterExit(v)})
}

// nextStop is next for a container that drains because healthd is about to stop it.
func nextStop(v *core.View) []Next {
	s := &v.State
	switch {
	case s.Run.Hooks[core.PreStop] == core.HookRunning:
		return []Next{
			{What: "its pre_stop hook runs, then healthd stops it"},
			{s.Health.HookAt.Add(s.Action.Grace), "healthd stops it even if the hook still runs"},
		}
	case s.Lost:
		return []Next{{What: "healthd stops it when it can reach the engine again"}}
	case s.StopRefused():
		steps := []Next{{s.Action.NotBefore, "healthd tries the stop again, which the engine did not allow"}}
		for _, probe := range []core.ProbeType{core.Startup, core.Liveness} {
			if awaitsRecovery(s, probe) {
				steps = append(steps, Next{s.Health.Probes[probe].Due, nextProbe(v, probe, v.Spec.Probes[probe])})
			}
		}
		return steps
	case s.Request.Error != "":
		return []Next{{s.Action.NotBefore, "healthd tries the stop again"}}
	case s.AwaitsWithdrawal():
		return []Next{{What: "the drain begins when all published files are without it and their balancers have reloaded"}, {s.Action.NotBefore, "healthd stops it in any case"}}
	case s.Run.Hooks[core.PreStop] == core.HookIdle && v.Spec.Lifecycle.PreStop != nil:
		return []Next{{s.Action.NotBefore, "the drain ends: healthd runs its pre_stop hook, then stops it"}}
	}
	return []Next{{s.Action.NotBefore, "the drain ends: healthd stops it"}}
}

func nextAfterEnd(v *core.View) string {
	s := &v.State
	switch {
	case s.Run.ID == runtime.Run{}:
		return "it has never run: healthd probes it once somebody starts it"
	case s.Engine.State == runtime.Restarting:
		return "the engine restarts it by its own restart policy"
	case v.Spec.ManagedElsewhere != "":
		return "healthd leaves the start to " + v.Spec.ManagedElsewhere + ", which manages it"
	case s.OperatorStopped():
		return "an operator stopped it: it stays stopped until somebody starts it"
	case s.Engine.GivesUp && s.Ending.By == core.EndedByItself && s.Action.Stopping == core.NoCause:
		return "the engine does not start it any more: an operator stopped it between two runs, or sent it a signal. It stays stopped until it is started"
	case enginePolicy(v) != "" && s.Action.Stopping == core.NoCause:
		return engineDecides(v)
	case v.Container.AutoRemove:
		return "the engine removes it (--rm)"
	case v.Spec.Observe:
		return "healthd only observes it (mode observe): it stays stopped until somebody starts it"
	case v.Spec.OnFailure == core.StopFailed && (s.Action.Stopping == core.ByLiveness || s.Action.Stopping == core.ByStartup):
		return "healthd stopped it (on_failure stop): it stays stopped until somebody starts it"
	case v.RestartsAfter(s.Run.Exit.Code) && s.Ending.By == core.EndedByItself:
		return "when it ended, healthd only observed it, or had another restart policy for it: it stays stopped until somebody starts it"
	case v.RestartsAfter(s.Run.Exit.Code):
		return "healthd did not see it end: it stays stopped until somebody starts it"
	}
	text := fmt.Sprintf("it stays stopped until somebody starts it: restart policy %s, exit code %d", v.Spec.RestartPolicy, s.Run.Exit.Code)
	if len(v.Spec.RestartRules) > 0 {
		text += ", no restart rule matches"
	}
	return text
}

// nextInRun is next for a container that is alive and is not about to be stopped.
func nextInRun(v *core.View) []Next {
	s := &v.State
	hook := s.Run.Hooks[core.PostStart]
	const until = "; probes begin when the hook has succeeded"
	switch {
	case hook == core.HookRunning:
		return []Next{{What: "its post_start hook runs" + until}, {What: "if the post_start hook fails: " + afterFailure(v)}}
	case hook == core.HookFailed:
		return []Next{{What: "healthd probes nothing in this run, because the post_start hook failed"}}
	case hook == core.HookDue && s.Lost:
		return []Next{{What: "healthd runs its post_start hook when it can reach the engine again" + until}}
	case hook == core.HookDue && s.Engine.State == runtime.Paused:
		return []Next{{What: "healthd runs its post_start hook when somebody unpauses it" + until}}
	case hook == core.HookDue:
		return []Next{{s.Health.HookAt, "healthd tries its post_start hook again" + until}}
	case s.Engine.State == runtime.Paused:
		return []Next{{What: "probing goes on when somebody unpauses it"}}
	}
	lines := nextProbes(v)
	for _, gate := range closedGates(v) {
		lines = append(lines, Next{What: fmt.Sprintf("readiness gate %s: the container is not ready until somebody sets the gate (healthd gate %s %s True)",
			gate, v.Container.Name, gate)})
	}
	return lines
}

func closedGates(v *core.View) []string {
	return slices.DeleteFunc(slices.Clone(v.Spec.ReadinessGates), func(name string) bool {
		g, _ := v.State.Gate(name)
		return g.Status
	})
}

func nextProbes(v *core.View) []Next {
	lines := []Next{}
	for t, p := range v.Spec.Probes {
		if p == nil {
			continue
		}
		line := Next{v.State.Health.Probes[t].Due, nextProbe(v, core.ProbeType(t), p)}
		if line.What != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, Next{What: "nothing while it runs: no probe is left to run"})
	}
	return lines
}

// nextProbe says what the next outcomes of a probe change; it is empty for a startup probe
// that has succeeded.
func nextProbe(v *core.View, t core.ProbeType, p *core.ProbeSpec) string {
	s := &v.State
	y := &s.Health.Probes[t]
	failure, success := outcomesNeeded(y, prober.Failure, p.FailureThreshold), outcomesNeeded(y, prober.Success, p.SuccessThreshold)
	switch {
	case t == core.Startup && s.Conditions.Started.Status:
		return ""
	case t != core.Startup && !s.Conditions.Started.Status:
		return t.String() + " probe: begins when the startup probe has succeeded"
	case y.OnHold:
		return t.String() + " probe: healthd does not run it again in this run"
	case t == core.Startup && awaitsRecovery(s, t):
		return "startup probe: " + success + ", it is started and " + afterRecovery(v)
	case t == core.Liveness && awaitsRecovery(s, t):
		return "liveness probe: " + success + ", " + afterRecovery(v)
	case t == core.Startup:
		return "startup probe: " + success + ", it is started; " + failure + ", " + afterFailedProbe(v)
	case t == core.Liveness:
		return "liveness probe: " + failure + ", " + afterFailedProbe(v)
	case y.Result == prober.Success && len(closedGates(v)) > 0:
		return "readiness probe: " + failure + ", it is not ready whatever its gates are"
	case y.Result == prober.Success:
		return "readiness probe: " + failure + ", it is not ready"
	case len(closedGates(v)) > 0:
		return "readiness probe: " + success + ", only the gates keep it not ready"
	}
	return "readiness probe: " + success + ", it is ready"
}

// awaitsRecovery says that the restart for a failed probe has not begun, and that its success ends it.
func awaitsRecovery(s *core.State, t core.ProbeType) bool {
	cause := core.ByLiveness
	if t == core.Startup {
		cause = core.ByStartup
	}
	return s.Health.Failed == cause || s.StopRefused() && s.Action.Stopping == cause
}

// outcomesNeeded says how many more of an outcome in a row reach the threshold.
func outcomesNeeded(y *core.ProbeState, o prober.Outcome, threshold int) string {
	more, noun := "", "success"
	if o == prober.Failure {
		noun = "failure"
	}
	n := threshold
	if y.Outcome == o {
		n, more = max(1, threshold-y.Run), "more "
	}
	if n == 1 {
		return "after 1 " + more + noun
	}
	if o == prober.Success {
		noun += "e"
	}
	return fmt.Sprintf("after %d %s%ss in a row", n, more, noun)
}
