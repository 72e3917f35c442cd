package api

import (
	"strings"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
)

// heldOf returns a container that is held, until the second 50 when not for ever.
func heldOf(name string, forever bool) *supervisor.View {
	v := web(name)
	v.State.Held = true
	if !forever {
		v.State.HeldUntil = at(50)
	}
	return v
}

// condemned makes a run one that its liveness probe wants stopped.
func condemned(v *supervisor.View, wait supervisor.Wait) *supervisor.View {
	v.State.Condemned, v.State.Wait = supervisor.ByLiveness, wait
	v.State.Tallies[supervisor.Liveness].Result, v.State.Tallies[supervisor.Liveness].Length = prober.Failure, 3
	return v
}

func TestNextOfAHold(t *testing.T) {
	const (
		noStart   = "exit by itself: it is started again (restart policy Always); healthd does not start it before the hold ends\n"
		end       = "50 the hold ends, if nobody resumes it before"
		noEnd     = "it is held until somebody resumes it (healthd resume web-1)"
		callsOff  = "30 liveness probe: calls that off after 1 success\n"
		nextProbe = "30 liveness probe: asks for its restart, which waits for the end of the hold, after 1 more failure\n"
	)
	for _, tt := range []struct {
		name string
		v    *supervisor.View
		want string
	}{
		{"healthy", heldOf("web-1", false), nextProbe + noStart + end},
		{"for ever", heldOf("web-1", true), nextProbe + noStart + noEnd},
		{"has failed", condemned(heldOf("web-1", true), supervisor.Wait{Reason: supervisor.WaitHeld}),
			"it is restarted when the hold ends\n" + callsOff + noStart + noEnd},
		{"is not to be started again", changed(condemned(heldOf("web-1", false), supervisor.Wait{Reason: supervisor.WaitHeld, Until: at(50)}),
			func(v *supervisor.View, _ *supervisor.State) { v.Spec.RestartPolicy = supervisor.Never }),
			"it is stopped when the hold ends\n" + callsOff +
				"exit by itself: it stays stopped (restart policy Never); healthd does not start it before the hold ends\n" + end},
		{"has ended", changed(heldOf("web-1", false), func(_ *supervisor.View, s *supervisor.State) {
			s.Engine, s.Restart, s.NotBefore = runtime.Exited, supervisor.ByExit, at(40)
		}), "it is started when the hold ends\n" + end},
		{"has ended of our stop", changed(heldOf("web-1", false), func(_ *supervisor.View, s *supervisor.State) {
			s.Engine, s.Restart, s.NotBefore = runtime.Exited, supervisor.ByLiveness, at(40)
		}), "40 it is started\n" + end},
		{"engine's policy", changed(heldOf("web-1", false), func(v *supervisor.View, _ *supervisor.State) { v.Container.RestartPolicy = "always" }),
			nextProbe + "exit by itself: the engine's business, whose restart policy is always\n" + end},
	} {
		if got := following(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestNextOfAVerdictThatWaits(t *testing.T) {
	const rest = "\n30 liveness probe: calls that off after 1 success" + byItself
	budget := supervisor.Wait{Reason: supervisor.WaitRestartBudget, On: "the host's budget of 10 restarts in 1m0s", Until: at(45)}
	for _, tt := range []struct {
		name string
		wait supervisor.Wait
		want string
	}{
		{"group", supervisor.Wait{Reason: supervisor.WaitGroupLimit, On: "web-2, web-3", Until: at(45)},
			"it is restarted when enough others of its group shop/web are up; it waits for web-2, web-3" + rest},
		{"budget", budget, "45 it is restarted at the earliest; it waits for the host's budget of 10 restarts in 1m0s" + rest},
	} {
		if got := following(condemned(web("web-1"), tt.wait)); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	starting := condemned(web("web-1"), budget)
	starting.State.Started, starting.State.Condemned = false, supervisor.ByStartup
	addProbe(starting, supervisor.Startup, supervisor.Tally{Result: prober.Failure, Outcome: prober.Failure, Length: 3, Due: at(31)})
	if got, want := following(starting), "31 startup probe: makes it started and calls that off after 1 success\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNotesOfAHold(t *testing.T) {
	v := heldOf("web-1", true)
	if got := notes(v); len(got) != 0 {
		t.Errorf("%q", got)
	}
	v.Container.RestartPolicy = "always"
	if got := strings.Join(notes(v), ""); !strings.Contains(got, "the engine starts it again, which a hold does not keep it from;") {
		t.Errorf("%q", got)
	}
}

func TestStatusOfAWait(t *testing.T) {
	forever, limited := heldOf("forever", true), heldOf("limited", false)
	group := condemned(web("group"), supervisor.Wait{Reason: supervisor.WaitGroupLimit, On: "limited", Until: at(45)})
	verdict := condemned(heldOf("verdict", false), supervisor.Wait{Reason: supervisor.WaitHeld, Until: at(50)})
	a, _, _ := newAPI(forever, limited, group, verdict)
	golden(t, "waits.json", indented(t, get(a.ReadOnly(), "/v1/containers").Body.Bytes()))
}
