package api

import (
	"fmt"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
)

// next says what will happen to a container if its probes go on as they do, and
// what would have to come for something else.
func next(v *supervisor.View) []Next {
	s := &v.State
	switch {
	case v.Spec == nil:
		return []Next{{What: "nothing, until its labels are right: " + v.Invalid}}
	case s.Call == supervisor.StopCall:
		return []Next{{What: "it is being stopped now"}}
	case s.Call == supervisor.StartCall:
		return []Next{{What: "it is being started now"}}
	case s.Restart != supervisor.NoCause && s.Lost:
		return []Next{{What: "it is started when its engine can be heard again"}}
	case s.Restart != supervisor.NoCause:
		return []Next{{s.NotBefore, "it is started"}}
	case s.Draining() && s.Stopping != supervisor.NoCause:
		return []Next{{s.NotBefore, "it is stopped, as the drain is over then"}}
	case s.Draining():
		return []Next{{What: "it ends, as somebody else has sent it a signal"}}
	case !s.Engine.Alive():
		return []Next{{What: nextAfterEnd(v)}}
	case s.Engine == runtime.Paused:
		return []Next{{What: "probing goes on when it is unpaused"}}
	}
	return nextProbes(v)
}

func nextAfterEnd(v *supervisor.View) string {
	s := &v.State
	switch {
	case s.Run == runtime.Run{}:
		return "it has never run: probing begins when somebody starts it"
	case s.Engine == runtime.Restarting:
		return "the engine starts it again, by its own restart policy"
	case s.OperatorStopped:
		return "it stays stopped until somebody starts it, as somebody else stopped it"
	}
	if p := v.Container.RestartPolicy; p != "" && p != "no" && s.Stopping == supervisor.NoCause {
		return "its exit is the engine's business, whose restart policy is " + p
	}
	if v.Container.AutoRemove {
		return "the engine removes it (--rm)"
	}
	return fmt.Sprintf("it stays stopped until somebody starts it: restart policy %s, exit code %d",
		v.Spec.RestartPolicy, s.Exit.Code)
}

func nextProbes(v *supervisor.View) []Next {
	lines := []Next{}
	for t, p := range v.Spec.Probes {
		if p == nil {
			continue
		}
		line := Next{v.State.Tallies[t].Due, nextProbe(v, supervisor.ProbeType(t), p)}
		if line.What != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, Next{What: "nothing, as long as it runs: no probe is left to be asked"})
	}
	return lines
}

// nextProbe says what the next outcomes of one probe would bring; it is empty for
// a probe that is done.
func nextProbe(v *supervisor.View, t supervisor.ProbeType, p *supervisor.ProbeSpec) string {
	s := &v.State
	y := &s.Tallies[t]
	failure, success := after(y, prober.Failure, p.FailureThreshold), after(y, prober.Success, p.SuccessThreshold)
	switch {
	case t == supervisor.Startup && s.Started:
		return ""
	case t != supervisor.Startup && !s.Started:
		return t.String() + " probe: begins when the startup probe has succeeded"
	case y.OnHold:
		return t.String() + " probe: has given its verdict on this run, and is not asked again before the next"
	case t == supervisor.Startup:
		return "startup probe: makes it started " + success + ", " + consequence(v) + " " + failure
	case t == supervisor.Liveness:
		return "liveness probe: " + consequence(v) + " " + failure
	case y.Result == prober.Success:
		return "readiness probe: makes it not ready " + failure
	}
	return "readiness probe: makes it ready " + success
}

// after says how many more of an outcome in a row make the verdict.
func after(y *supervisor.Tally, o prober.Outcome, threshold int) string {
	more, noun := "", "success"
	if o == prober.Failure {
		noun = "failure"
	}
	n := threshold
	if y.Outcome == o {
		n, more = max(1, threshold-y.Length), "more "
	}
	if n == 1 {
		return "after 1 " + more + noun
	}
	if o == prober.Success {
		noun += "e"
	}
	return fmt.Sprintf("after %d %s%ss in a row", n, more, noun)
}

func consequence(v *supervisor.View) string {
	switch {
	case v.Container.AutoRemove:
		return "reports it, but does not stop it (--rm),"
	case v.Spec.RestartPolicy == supervisor.Never:
		return "stops it (restart policy Never)"
	}
	return "restarts it"
}
