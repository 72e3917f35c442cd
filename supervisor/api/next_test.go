package api

import (
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// withChange returns a container with something changed.
func withChange(v *core.View, change func(*core.View, *core.State)) *core.View {
	change(v, &v.State)
	return v
}

// formatNext formats next, one line each, with its second.
func formatNext(v *core.View) string {
	var lines []string
	for _, n := range next(v) {
		if !n.At.IsZero() {
			n.What = n.At.UTC().Format("05") + " " + n.What
		}
		lines = append(lines, n.What)
	}
	return strings.Join(lines, "\n")
}

const byItself = "\nif it exits by itself: healthd restarts it (restart policy Always)"

func TestNextWhileRunning(t *testing.T) {
	hook := func(state core.HookState, change func(*core.View, *core.State)) *core.View {
		v := readyContainer("hooked")
		v.State.Conditions.Started.Status, v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = false, false, false
		v.State.Run.Hooks[core.PostStart] = state
		if change != nil {
			change(v, &v.State)
		}
		return v
	}
	const only = "; probes begin when the hook has succeeded"
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"post_start runs", hook(core.HookRunning, nil), "its post_start hook runs" + only + "\nif the post_start hook fails: healthd restarts it" + byItself},
		{"post_start could not be run", hook(core.HookDue, func(_ *core.View, s *core.State) { s.Health.HookAt = at(12) }),
			"12 healthd tries its post_start hook again" + only + byItself},
		{"post_start waits for the engine", hook(core.HookDue, func(_ *core.View, s *core.State) { s.Lost = true }),
			"healthd runs its post_start hook when it can reach the engine again" + only +
				strings.Replace(byItself, ": ", ": when it can reach the engine again, ", 1)},
		{"post_start of a paused one", hook(core.HookDue, func(_ *core.View, s *core.State) { s.Engine.State = runtime.Paused }),
			"healthd runs its post_start hook when somebody unpauses it" + only + byItself},
		{"post_start failed, --rm", hook(core.HookFailed, func(v *core.View, _ *core.State) { v.Container.AutoRemove = true }),
			"healthd probes nothing in this run, because the post_start hook failed\nif it exits by itself: the engine removes it (--rm)"},
		{"gates", gatedContainer("web-1"), "30 liveness probe: after 1 more failure, healthd restarts it\n" +
			"readiness gate ok: the container is not ready until somebody sets the gate (healthd gate web-1 ok True)\n" +
			"readiness gate never: the container is not ready until somebody sets the gate (healthd gate web-1 never True)" + byItself},
		{"paused", withChange(readyContainer("p"), func(_ *core.View, s *core.State) { s.Engine.State = runtime.Paused }),
			"probing goes on when somebody unpauses it" + byItself},
		{"no probes", withChange(readyContainer("n"), func(v *core.View, _ *core.State) {
			v.Spec.Probes = [core.NumProbes]*core.ProbeSpec{}
		}),
			"nothing while it runs: no probe is left to run" + byItself},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// A readiness probe alone does not decide while gates are closed.
func TestNextReadinessProbe(t *testing.T) {
	for _, tt := range []struct {
		v      *core.View
		result prober.Outcome
		want   string
	}{
		{readyContainer("a"), prober.Success, "readiness probe: after 3 failures in a row, it is not ready"},
		{readyContainer("b"), prober.Failure, "readiness probe: after 1 success, it is ready"},
		{gatedContainer("c"), prober.Success, "readiness probe: after 3 failures in a row, it is not ready whatever its gates are"},
		{gatedContainer("d"), prober.Failure, "readiness probe: after 1 success, only the gates keep it not ready"},
	} {
		addProbe(tt.v, core.Readiness, core.ProbeState{Result: tt.result})
		if got := nextProbe(tt.v, core.Readiness, tt.v.Spec.Probes[core.Readiness]); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.v.Container.Name, got, tt.want)
		}
	}
}

func TestNextWhileStopping(t *testing.T) {
	stopping := func(change func(*core.View, *core.State)) *core.View {
		v := drainingContainer("web-1")
		v.Spec.Lifecycle.PreStop = &prober.LifecycleHandler{Sleep: &prober.Sleep{}}
		change(v, &v.State)
		return v
	}
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"no hook", drainingContainer("web-1"), "40 the drain ends: healthd stops it"},
		{"reload under way", stopping(func(_ *core.View, s *core.State) { s.Action.Withdrawn = time.Time{} }),
			"the drain begins when all published files are without it and their balancers have reloaded\n40 healthd stops it in any case"},
		{"hook to come", stopping(func(*core.View, *core.State) {}),
			"40 the drain ends: healthd runs its pre_stop hook, then stops it"},
		{"hook runs", stopping(func(_ *core.View, s *core.State) {
			s.Run.Hooks[core.PreStop], s.Health.HookAt, s.Action.Grace = core.HookRunning, at(40), 15*time.Second
		}), "its pre_stop hook runs, then healthd stops it\n55 healthd stops it even if the hook still runs"},
		{"engine away", stopping(func(_ *core.View, s *core.State) { s.Lost = true }),
			"healthd stops it when it can reach the engine again"},
		{"call failed", stopping(func(_ *core.View, s *core.State) {
			s.Run.Hooks[core.PreStop], s.Request.Error = core.HookDone, "engine is sick"
		}), "40 healthd tries the stop again"},
		{"under way", stopping(func(_ *core.View, s *core.State) { s.Action.Call = core.StopCall }), "healthd is stopping it now"},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// endedContainer returns a container that has ended, under a policy and rules.
func endedContainer(policy core.RestartPolicy, code int, rules ...core.RestartRule) *core.View {
	v := readyContainer("ended")
	v.Spec.RestartPolicy, v.Spec.RestartRules = policy, rules
	v.State.Engine.State, v.State.Conditions.Ready.Status = runtime.Exited, false
	v.State.Run.Exit = core.Exit{Code: code, FinishedAt: at(9)}
	return v
}

func TestNextAfterExit(t *testing.T) {
	in42 := core.RestartRule{Operator: core.In, ExitCodes: []int{42}}
	const stays = "it stays stopped until somebody starts it"
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"policy", endedContainer(core.Never, 1), stays + ": restart policy Never, exit code 1"},
		{"rules", endedContainer(core.Never, 1, in42), stays + ": restart policy Never, exit code 1, no restart rule matches"},
		{"found stopped", endedContainer(core.Always, 1), "healthd did not see it end: " + stays},
		{"found stopped, rule applies", endedContainer(core.Never, 42, in42), "healthd did not see it end: " + stays},
		{"seen by a healthd that only observed", withChange(endedContainer(core.Always, 1), func(_ *core.View, s *core.State) { s.Ending.By = core.EndedByItself }),
			"when it ended, healthd only observed it, or had another restart policy for it: " + stays},
		{"by an operator", withChange(endedContainer(core.Always, 143), func(_ *core.View, s *core.State) { s.Ending.By = core.EndedByOperator }),
			"an operator stopped it: " + stays},
		{"engine's policy", withChange(endedContainer(core.Always, 1), func(v *core.View, _ *core.State) { v.Container.RestartPolicy = "on-failure" }),
			"the engine's own restart policy decides (on-failure)"},
		{"left down by its engine", withChange(endedContainer(core.Always, 3), func(v *core.View, s *core.State) {
			v.Container.RestartPolicy, s.Engine.LeftDown, s.Ending.By, s.Run.EndedAt = "unless-stopped", true, core.EndedByItself, at(10)
		}), "25 unless the engine's own restart policy (unless-stopped) has started it by then, healthd's decides (Always)"},
		{"the engine has given up", withChange(endedContainer(core.Never, 1), func(v *core.View, s *core.State) {
			v.Container.RestartPolicy, s.Run.EngineGaveUp = "unless-stopped", true
		}), "it stays stopped until somebody starts it: restart policy Never, exit code 1"},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// The time of a start that waits for a network, or for other starts, is not known.
func TestNextOfBlockedStart(t *testing.T) {
	away := func(change func(*core.View, *core.State)) *core.View {
		v := backingOffContainer("sidecar")
		v.State.Engine.NetworkAway = true
		change(v, &v.State)
		return v
	}
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"away", away(func(*core.View, *core.State) {}), "healthd starts it when the container whose network it shares runs"},
		{"gone", away(func(v *core.View, _ *core.State) { v.Container.NetworkOwnerGone = true }),
			"healthd cannot start it, because the container whose network it shares is gone: recreate it"},
		{"queued", withChange(backingOffContainer("web-1"), func(_ *core.View, s *core.State) { s.Request.Queued = true }),
			"healthd starts it when fewer than 8 other starts are under way"},
		{"engine away", away(func(_ *core.View, s *core.State) { s.Lost = true }), "healthd starts it when it can reach the engine again"},
		{"back-off", withChange(backingOffContainer("web-1"), func(_ *core.View, s *core.State) { s.Action.Restart = core.ByExit }),
			"45 healthd starts it. To keep it down: healthd hold web-1 (an engine's stop does nothing to a container that does not run)"},
		{"back-off of what healthd has stopped", backingOffContainer("web-1"), "45 healthd starts it"},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestPolicies(t *testing.T) {
	rules := []core.RestartRule{
		{Operator: core.In, ExitCodes: []int{42}}, {Operator: core.In, ExitCodes: []int{1, 2, 3}}, {Operator: core.NotIn, ExitCodes: []int{0}},
	}
	for _, tt := range []struct {
		v           *core.View
		exit, probe string
	}{
		{endedContainer(core.Always, 0, rules...), "healthd restarts it (restart policy Always)", "healthd restarts it"},
		{endedContainer(core.OnFailure, 0), "healthd restarts it unless its exit code is 0 (restart policy OnFailure)", "healthd restarts it"},
		{endedContainer(core.OnFailure, 0, rules[0]),
			"healthd restarts it after exit code 42 (restart rules) and after any other exit code but 0 (restart policy OnFailure)", "healthd restarts it"},
		{endedContainer(core.Never, 0), "it stays stopped (restart policy Never)", "healthd stops it (restart policy Never)"},
		{endedContainer(core.Never, 0, rules...),
			"healthd restarts it after exit code 42, exit code 1, 2 or 3 or any exit code but 0 (restart rules), else it stays stopped (restart policy Never)",
			"healthd stops it, and restarts it only after exit code 42, exit code 1, 2 or 3 or any exit code but 0 (restart policy Never)"},
		{withChange(readyContainer("e"), func(v *core.View, _ *core.State) { v.Container.RestartPolicy = "always" }),
			"the engine's own restart policy decides (always)", "healthd restarts it"},
	} {
		if got := afterExit(tt.v); got != tt.exit {
			t.Errorf("exit: %s, want %s", got, tt.exit)
		}
		if got := afterFailure(tt.v); got != tt.probe {
			t.Errorf("probe: %s, want %s", got, tt.probe)
		}
	}
}
