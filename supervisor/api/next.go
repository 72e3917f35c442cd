package api

import (
	"fmt"
	"slices"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// next says what happens next to a container, and after which probe results something
// changes.
func next(v *core.View) []Next {
	if v.Spec == nil {
		return []Next{{What: "nothing, until this is mended: " + v.Invalid}}
	}
	return append(nextSteps(v), nextHoldEnd(v)...)
}

// nextSteps is next without the end of a hold.
func nextSteps(v *core.View) []Next {
	s := &v.State
	switch {
	case s.Action.Call == core.StopCall:
		return []Next{{What: "it is being stopped now"}}
	case s.Action.Call == core.StartCall:
		return []Next{{What: "it is being started now"}}
	case s.Lasting.Held && s.Action.Restart == core.ByExit:
		return []Next{{What: "it is started when the hold ends"}}
	case s.Action.Restart != core.NoCause && s.Lost:
		return []Next{{What: "it is started when its engine can be heard again"}}
	case s.Action.Restart != core.NoCause && v.Container.NetworkOwnerGone:
		return []Next{{What: "nothing, until it is created anew: the container whose network it shares is gone"}}
	case s.Action.Restart != core.NoCause && s.Engine.NetworkAway:
		return []Next{{What: "it is started when the container whose network it shares runs"}}
	case s.Action.Restart != core.NoCause:
		return []Next{{s.Action.NotBefore, "it is started"}}
	case s.Draining() && s.Action.Stopping != core.NoCause:
		return nextStop(v)
	case s.Draining():
		return []Next{{What: "it ends, as somebody else has sent it a signal"}}
	case !s.Engine.State.Alive():
		return []Next{{What: nextAfterEnd(v)}}
	}
	return append(append(nextVerdict(v), nextInRun(v)...), Next{What: "exit by itself: " + afterExit(v)})
}

// nextStop is next for a container that drains because healthd is about to stop it.
func nextStop(v *core.View) []Next {
	s := &v.State
	switch {
	case s.Run.Hooks[core.PreStop] == core.HookRunning:
		return []Next{
			{What: "its pre_stop hook runs, then it is stopped"},
			{s.Health.HookAt.Add(s.Action.Grace), "it is stopped at the latest"},
		}
	case s.Lost:
		return []Next{{What: "it is stopped when its engine can be heard again"}}
	case s.Request.Error != "":
		return []Next{{s.Action.NotBefore, "the stop is tried again"}}
	case s.Run.Hooks[core.PreStop] == core.HookIdle && v.Spec.Lifecycle.PreStop != nil:
		return []Next{{s.Action.NotBefore, "its pre_stop hook runs, as the drain is over then, and after it the container is stopped"}}
	}
	return []Next{{s.Action.NotBefore, "it is stopped, as the drain is over then"}}
}

func nextAfterEnd(v *core.View) string {
	s := &v.State
	switch {
	case s.Run.ID == runtime.Run{}:
		return "it has never run: probing begins when somebody starts it"
	case s.Engine.State == runtime.Restarting:
		return "the engine starts it again, by its own restart policy"
	case s.OperatorStopped():
		return "it stays stopped until somebody starts it, as somebody else stopped it"
	case enginePolicy(v) != "" && s.Action.Stopping == core.NoCause:
		return "its exit is the engine's business, whose restart policy is " + enginePolicy(v)
	case v.Container.AutoRemove:
		return "the engine removes it (--rm)"
	case v.RestartsAfter(s.Run.Exit.Code):
		return "it stays stopped until somebody starts it, as healthd starts again only what it saw end"
	}
	text := fmt.Sprintf("it stays stopped until somebody starts it: restart policy %s, exit code %d", v.Spec.RestartPolicy, s.Run.Exit.Code)
	if len(v.Spec.RestartRules) > 0 {
		text += ", to which no restart rule applies"
	}
	return text
}

// nextInRun is next for a container that is alive and is not about to be stopped.
func nextInRun(v *core.View) []Next {
	s := &v.State
	hook := s.Run.Hooks[core.PostStart]
	const until = "; it is probed and ready only after it"
	switch {
	case hook == core.HookRunning:
		return []Next{{What: "its post_start hook runs" + until}, {What: "post_start hook: " + consequence(v) + " if it fails"}}
	case hook == core.HookFailed:
		return []Next{{What: "nothing is probed in this run, as its post_start hook failed"}}
	case hook == core.HookDue && s.Lost:
		return []Next{{What: "its post_start hook runs when its engine can be heard again" + until}}
	case hook == core.HookDue && s.Engine.State == runtime.Paused:
		return []Next{{What: "its post_start hook runs when it is unpaused" + until}}
	case hook == core.HookDue:
		return []Next{{s.Health.HookAt, "its post_start hook is tried again" + until}}
	case s.Engine.State == runtime.Paused:
		return []Next{{What: "probing goes on when it is unpaused"}}
	}
	lines := nextProbes(v)
	for _, gate := range closedGates(v) {
		lines = append(lines, Next{What: fmt.Sprintf("readiness gate %s: keeps it not ready until somebody sets it (healthd gate %s %s True)",
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
		lines = append(lines, Next{What: "nothing, as long as it runs: no probe is left to be asked"})
	}
	return lines
}

// nextProbe says what the next outcomes of a probe change; it is empty for a probe that is
// not asked any more.
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
		return t.String() + " probe: has given its verdict on this run, and is not asked again before the next"
	case t == core.Startup && s.Health.Failed == core.ByStartup:
		return "startup probe: makes it started and calls that off " + success
	case t == core.Liveness && s.Health.Failed == core.ByLiveness:
		return "liveness probe: calls that off " + success
	case t == core.Startup:
		return "startup probe: makes it started " + success + ", " + consequence(v) + " " + failure
	case t == core.Liveness:
		return "liveness probe: " + consequence(v) + " " + failure
	case y.Result == prober.Success && len(closedGates(v)) > 0:
		return "readiness probe: keeps it not ready, whatever its gates, " + failure
	case y.Result == prober.Success:
		return "readiness probe: makes it not ready " + failure
	case len(closedGates(v)) > 0:
		return "readiness probe: leaves it to the gates " + success
	}
	return "readiness probe: makes it ready " + success
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
