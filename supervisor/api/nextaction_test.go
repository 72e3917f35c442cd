package api

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// inDoubt has a container end while its engine may have been shutting down; now the engine is away.
func inDoubt(v *core.View) *core.View {
	s := &v.State
	v.Container.State, v.Container.ExitCode, s.Engine.State, s.Lost = runtime.Exited, 143, runtime.Exited, true
	s.Conditions.ContainerReady.Status, s.Conditions.Ready.Status = false, false
	s.Ending.By, s.Ending.First, s.Ending.MaybeEngine = core.EndedByOperator, at(5), true
	s.Run.Exit = core.Exit{Code: 143, Reason: core.ReasonStoppedByOperator, FinishedAt: at(6)}
	return v
}

// All who ask hear the same of a run of which only its engine can tell who ended it.
func TestOneAnswerInDoubt(t *testing.T) {
	v := inDoubt(readyContainer("web-1"))
	a, _, _ := newAPI(v)
	const want = "it ended as its engine stopped, or by an operator: healthd decides when the engine is back"
	s, g := newStatus(v, time.Now()), overviewOf(t, a)["web-1"]
	if w := s.State.Waiting; w == nil || w.Reason != core.WaitRuntimeUnknown || w.Message != want || s.LastState.Terminated.Reason != core.ReasonError {
		t.Errorf("status %+v, last %+v", s.State, s.LastState.Terminated)
	}
	if g.Look != "Unknown" || g.Reason != core.WaitRuntimeUnknown || g.Message != want || g.Ended.Reason != core.ReasonError {
		t.Errorf("glance %+v", g)
	}
	v.State.Ending.MaybeEngine = false // the engine accepted a connection after the signal
	if s := newStatus(v, time.Now()); s.State.Terminated == nil || s.State.Terminated.Reason != core.ReasonStoppedByOperator {
		t.Errorf("without a doubt: %+v", s.State)
	}
}

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
		{"stopped as its engine stopped, perhaps", inDoubt(with(func(*core.View, *core.State) {})),
			"it ended as its engine stopped, or by an operator: healthd decides when the engine is back"},
		{"got a signal as its engine stopped", with(func(_ *core.View, s *core.State) { s.Lost, s.Ending.First, s.Ending.MaybeEngine = true, at(5), true }),
			"its stop signal came from its engine, which stopped, or from an operator: healthd decides when the engine is back"},
		{"its engine starts it no more", with(func(v *core.View, s *core.State) {
			v.Container.State, v.Container.RestartPolicy, s.Engine.State, s.Engine.GivesUp = runtime.Exited, "always", runtime.Exited, true
			s.Ending.By = core.EndedByItself
		}), "the engine does not start it any more: an operator stopped it between two runs, or sent it a signal. It stays stopped until it is started"},
		{"engine away", with(func(_ *core.View, s *core.State) { s.Lost = true }),
			"30 liveness probe: after 1 more failure, healthd restarts it when it can reach the engine again\n" +
				"if it exits by itself: when it can reach the engine again, healthd restarts it (restart policy Always)"},
		{"engine away, quarantined", with(func(v *core.View, s *core.State) { s.Lost, v.Spec.OnFailure = true, core.StopFailed }),
			"30 liveness probe: after 1 more failure, healthd stops it when it can reach the engine again\n" +
				"if it exits by itself: when it can reach the engine again, healthd restarts it (restart policy Always)"},
		{"an operator's signal", with(func(_ *core.View, s *core.State) { s.Ending.First = at(5) }),
			"it is about to stop: an operator sent it a stop signal"},
		{"an operator's signal, engine away", with(func(_ *core.View, s *core.State) { s.Lost, s.Ending.First = true, at(5) }),
			"an operator sent it a stop signal: healthd sees whether it has ended when it can reach the engine again"},
		{"only told", with(func(v *core.View, _ *core.State) { v.Spec.OnFailure = core.TellFailed }),
			"30 liveness probe: after 1 more failure, healthd records it, and leaves the container as it is (on_failure none)\n" + exits},
		{"quarantined", with(func(v *core.View, _ *core.State) { v.Spec.OnFailure = core.StopFailed }),
			"30 liveness probe: after 1 more failure, healthd stops it (on_failure stop)\n" + exits},
		{"in quarantine", with(func(v *core.View, s *core.State) {
			v.Spec.OnFailure = core.StopFailed
			s.Engine.State, s.Action.Stopping = runtime.Exited, core.ByLiveness
		}), "healthd stopped it (on_failure stop): it stays stopped until somebody starts it"},
		{"managed elsewhere", with(func(v *core.View, _ *core.State) { managedBySwarm(v) }),
			"30 liveness probe: after 1 more failure, healthd stops it, and leaves the start to Docker Swarm\n" +
				"if it exits by itself: Docker Swarm decides: healthd does not start it"},
		{"managed elsewhere, has ended", with(func(v *core.View, s *core.State) {
			managedBySwarm(v)
			s.Engine.State, s.Ending.By = runtime.Exited, core.EndedByOperator
		}), "healthd leaves the start to Docker Swarm, which manages it"},
		{"managed elsewhere, held", with(func(v *core.View, s *core.State) {
			managedBySwarm(v)
			s.Lasting.HeldHere = true
		}), "30 liveness probe: after 1 more failure, healthd stops it when the hold ends\n" +
			"if it exits by itself: Docker Swarm decides: healthd does not start it\nthe hold lasts until somebody ends it (healthd resume web-1)"},
		{"stop not allowed", with(func(_ *core.View, s *core.State) {
			s.Action.Stopping, s.Action.Refused, s.Action.NotBefore, s.Request.Error = core.ByLiveness, 2, at(40), "cannot stop container web-1: no"
		}), "40 healthd tries the stop again, which the engine did not allow\n30 liveness probe: after 1 success, healthd cancels the restart"},
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

func managedBySwarm(v *core.View) {
	v.Spec.ManagedElsewhere, v.Spec.RestartPolicy, v.Spec.OnFailure = "Docker Swarm", core.Never, core.StopFailed
}

// What status and explain say of a container of another orchestrator.
func TestManagedElsewhere(t *testing.T) {
	for _, tt := range []struct {
		change func(spec *core.Spec)
		want   string
	}{
		{func(*core.Spec) {}, "managed by Docker Swarm: healthd stops it when its probe fails, and leaves the start to Docker Swarm"},
		{func(spec *core.Spec) { spec.OnFailure = core.TellFailed }, "managed by Docker Swarm: healthd records when its probe fails (on_failure none), and never starts it"},
		{func(spec *core.Spec) { spec.Observe = true }, "managed by Docker Swarm: healthd only observes it, and neither stops nor starts it"},
	} {
		v := readyContainer("web.1.x8k2")
		managedBySwarm(v)
		tt.change(v.Spec)
		if e := ExplainSpec(v); len(e.Notes) != 1 || e.Notes[0] != tt.want || e.Status.ManagedBy != "Docker Swarm" {
			t.Errorf("notes %q, managed by %q, want %q", e.Notes, e.Status.ManagedBy, tt.want)
		}
	}
}
