package api

import (
	"strings"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// heldContainer returns a container that is held, until the second 50 when not for ever.
func heldContainer(name string, forever bool) *core.View {
	v := readyContainer(name)
	v.State.Lasting.HeldHere = true
	if !forever {
		v.State.Lasting.HeldHereUntil = at(50)
	}
	return v
}

// withFailedLiveness makes the container one whose liveness probe failed.
func withFailedLiveness(v *core.View, wait core.Wait) *core.View {
	v.State.Health.Failed, v.State.Health.Wait = core.ByLiveness, wait
	v.State.Health.Probes[core.Liveness].Result, v.State.Health.Probes[core.Liveness].Run = prober.Failure, 3
	return v
}

func TestNextWhileHeld(t *testing.T) {
	const (
		noStart   = "if it exits by itself: when the hold ends, healthd restarts it (restart policy Always)\n"
		end       = "50 the hold ends, unless somebody ends it earlier"
		noEnd     = "the hold lasts until somebody ends it (healthd resume web-1)"
		fleetEnd  = "the hold lasts until that on all hosts ends (healthd resume --fleet shop), or healthd resume web-1 ends it for this container"
		cancels   = "30 liveness probe: after 1 success, healthd cancels the restart\n"
		nextProbe = "30 liveness probe: after 1 more failure, healthd restarts it when the hold ends\n"
	)
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"healthy", heldContainer("web-1", false), nextProbe + noStart + end},
		{"for ever", heldContainer("web-1", true), nextProbe + noStart + noEnd},
		{"on all hosts, too", withChange(heldContainer("web-1", false), func(_ *core.View, s *core.State) { s.Lasting.FleetHold = "a" }), nextProbe + noStart + fleetEnd},
		{"has failed", withFailedLiveness(heldContainer("web-1", true), core.Wait{Reason: core.WaitHeld}),
			"healthd restarts it when the hold ends\n" + cancels + noStart + noEnd},
		{"is not to be started again", withChange(withFailedLiveness(heldContainer("web-1", false), core.Wait{Reason: core.WaitHeld, Until: at(50)}),
			func(v *core.View, _ *core.State) { v.Spec.RestartPolicy = core.Never }),
			"healthd stops it when the hold ends\n30 liveness probe: after 1 success, healthd cancels the stop\n" +
				"if it exits by itself: it stays stopped (restart policy Never)\n" + end},
		{"has ended", withChange(heldContainer("web-1", false), func(_ *core.View, s *core.State) {
			s.Engine.State, s.Action.Restart, s.Action.NotBefore = runtime.Exited, core.ByExit, at(40)
		}), "healthd starts it when the hold ends\n" + end},
		{"has ended of our stop", withChange(heldContainer("web-1", false), func(_ *core.View, s *core.State) {
			s.Engine.State, s.Action.Restart, s.Action.NotBefore = runtime.Exited, core.ByLiveness, at(40)
		}), "40 healthd starts it\n" + end},
		{"engine's policy", withChange(heldContainer("web-1", false), func(v *core.View, _ *core.State) { v.Container.RestartPolicy = "always" }),
			nextProbe + "if it exits by itself: the engine's own restart policy decides (always)\n" + end},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestNextOfARestartThatWaits(t *testing.T) {
	const rest = "\n30 liveness probe: after 1 success, healthd cancels the restart" + byItself
	budget := core.Wait{Reason: core.WaitRestartBudget, On: "the host's budget of 10 restarts in 1m0s", Until: at(45)}
	for _, tt := range []struct {
		name string
		wait core.Wait
		want string
	}{
		{"group", core.Wait{Reason: core.WaitGroupLimit, On: "web-2, web-3", Until: at(45)},
			"healthd restarts it when enough other members of group shop/web are up; it waits for web-2, web-3" + rest},
		{"budget", budget, "45 healthd restarts it at the earliest; it waits for the host's budget of 10 restarts in 1m0s" + rest},
	} {
		if got := formatNext(withFailedLiveness(readyContainer("web-1"), tt.wait)); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	starting := withFailedLiveness(readyContainer("web-1"), budget)
	starting.State.Conditions.Started.Status, starting.State.Health.Failed = false, core.ByStartup
	addProbe(starting, core.Startup, core.ProbeState{Result: prober.Failure, Outcome: prober.Failure, Run: 3, Due: at(31)})
	if got, want := formatNext(starting), "31 startup probe: after 1 success, it is started and healthd cancels the restart\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNotesWhileHeld(t *testing.T) {
	v := heldContainer("web-1", true)
	if got := notes(v); len(got) != 0 {
		t.Errorf("%q", got)
	}
	v.Container.RestartPolicy = "always"
	if got := strings.Join(notes(v), ""); !strings.Contains(got, "the engine restarts it after a crash, also during a hold;") {
		t.Errorf("%q", got)
	}
}

func TestStatusWhileWaiting(t *testing.T) {
	forever, limited := heldContainer("forever", true), heldContainer("limited", false)
	group := withFailedLiveness(readyContainer("group"), core.Wait{Reason: core.WaitGroupLimit, On: "limited", Until: at(45)})
	verdict := withFailedLiveness(heldContainer("verdict", false), core.Wait{Reason: core.WaitHeld, Until: at(50)})
	a, _, _ := newAPI(forever, limited, group, verdict)
	golden(t, "waits.json", indented(t, get(t, a.ReadOnly(), "/v1/containers").Body.Bytes()))
}
