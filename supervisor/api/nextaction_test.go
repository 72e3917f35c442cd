package api

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// What on_failure, mode and give_up change in what follows.
func TestNextOfOtherActions(t *testing.T) {
	const exits = "if it exits by itself: healthd restarts it (restart policy Always)"
	with := func(change func(v *core.View, s *core.State)) *core.View {
		return withChange(readyContainer("web-1"), change)
	}
	gaveUp := core.GiveUp{Restarts: 3, Within: time.Hour}
	for _, tt := range []struct {
		name string
		v    *core.View
		want string
	}{
		{"only told", with(func(v *core.View, _ *core.State) { v.Spec.OnFailure = core.TellFailed }),
			"30 liveness probe: after 1 more failure, healthd records it, and leaves the container as it is (on_failure none)\n" + exits},
		{"quarantined", with(func(v *core.View, _ *core.State) { v.Spec.OnFailure = core.StopFailed }),
			"30 liveness probe: after 1 more failure, healthd stops it (on_failure stop)\n" + exits},
		{"in quarantine", with(func(v *core.View, s *core.State) {
			v.Spec.OnFailure = core.StopFailed
			s.Engine.State, s.Action.Stopping = runtime.Exited, core.ByLiveness
		}), "healthd stopped it (on_failure stop): it stays stopped until somebody starts it"},
		{"observed", with(func(v *core.View, _ *core.State) { v.Spec.Observe = true }),
			"30 liveness probe: after 1 more failure, healthd records that it would restart it (mode observe)\n" +
				"if it exits by itself: healthd would restart it, and only observes it (restart policy Always)"},
		{"observed, has failed", withFailedLiveness(with(func(v *core.View, _ *core.State) { v.Spec.Observe = true }), core.Wait{Reason: core.WaitObserved}),
			"healthd would restart it, and only observes it (mode observe)\n30 liveness probe: after 1 success, it has recovered\n" +
				"if it exits by itself: healthd would restart it, and only observes it (restart policy Always)"},
		{"given up, runs", withFailedLiveness(with(func(v *core.View, s *core.State) { v.Spec.GiveUp, s.Action.GaveUp = gaveUp, true }), core.Wait{Reason: core.WaitGaveUp}),
			"healthd has given up, after 3 restarts within 1h0m0s: it does not restart it until it recovers or somebody resumes it (healthd resume web-1)\n" +
				"30 liveness probe: after 1 success, it has recovered\n" + "if it exits by itself: healthd has given up, and does not restart it (restart policy Always)"},
		{"given up, its hook failed", with(func(v *core.View, s *core.State) {
			v.Spec.GiveUp, s.Action.GaveUp = gaveUp, true
			s.Health.Failed, s.Health.Wait, s.Run.Hooks[core.PostStart] = core.ByPostStart, core.Wait{Reason: core.WaitGaveUp}, core.HookFailed
		}), "healthd has given up, after 3 restarts within 1h0m0s: it does not restart it until somebody resumes it (healthd resume web-1)\n" +
			"healthd probes nothing in this run, because the post_start hook failed\n" + "if it exits by itself: healthd has given up, and does not restart it (restart policy Always)"},
		{"given up, has ended", with(func(v *core.View, s *core.State) {
			v.Spec.GiveUp, s.Action.GaveUp, s.Action.Restart, s.Engine.State = gaveUp, true, core.ByExit, runtime.Exited
		}), "healthd has given up, after 3 restarts within 1h0m0s: it stays stopped until somebody resumes it (healthd resume web-1) or starts it"},
	} {
		if got := formatNext(tt.v); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
