package core

import (
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Only a container that is ready but for its drain finishes its last requests.
func TestDrainingReady(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spec   string
		events []string
		want   bool
	}{
		{"it runs", "readiness=0s/1h/1/1", []string{"0s runs"}, false},
		{"an operator stops it", "readiness=0s/1h/1/1", []string{"0s runs", "1s signalled 15"}, true},
		{"healthd drains it", "readiness=0s/1h/1/1 drain=1m", []string{"0s runs", "1s restart-asked"}, true},
		{"its readiness probe failed before", "readiness=0s/1s/1/1 drain=1m", []string{"0s runs", "1s readiness fails", "3s restart-asked"}, false},
		{"its readiness probe fails meanwhile", "readiness=0s/1s/1/1 drain=1m", []string{"0s runs", "1s restart-asked", "2s readiness fails", "5s"}, false},
		{"it has not started yet", "startup=0s/1h/1/9 readiness=0s/1h/1/1", []string{"0s startup fails", "0s runs", "1s restart-asked"}, false},
		{"a gate is not True", "readiness=0s/1h/1/1 gates=warm", []string{"0s runs", "1s signalled 15"}, false},
		{"it is paused", "readiness=0s/1h/1/1", []string{"0s runs", "1s signalled 15", "2s paused"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := simulate(t, append([]string{tt.spec}, tt.events...)...)
			if got := sim.view().DrainingReady(); got != tt.want {
				t.Errorf("%v, want %v\n%s", got, tt.want, sim.transcript.String())
			}
		})
	}
	sim := simulate(t, "readiness=0s/1h/1/1", "0s runs", "1s signalled 15")
	sim.step("", &Input{Kind: Died, Time: sim.now, ExitCode: 143})
	if sim.view().DrainingReady() {
		t.Error("what has died finishes nothing")
	}
	if (&View{State: sim.state}).DrainingReady() {
		t.Error("an invalid container finishes nothing")
	}
	if sim.state.Health.Probes[Readiness].Result != prober.Success {
		t.Error("the readiness probe is to blame, and not what the test is about")
	}
}

// Operators look for the container that the message names.
func TestWaitForANetworkNamesItsOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone bool
		want string
	}{
		{"it does not run", false, "shares the network of container 0123456789ab, which does not run"},
		{"it is gone", true, "shares the network of container 0123456789ab, which is gone: re-create it"},
	} {
		v := View{Spec: &Spec{}, Container: &runtime.Container{NetworkOwner: "0123456789abcdef", NetworkOwnerGone: tt.gone}, State: NewState()}
		v.State.Action.Restart, v.State.Engine.NetworkAway = ByExit, true
		if x := v.Waiting(); x == nil || x.Reason != WaitNetwork || x.Message != tt.want {
			t.Errorf("%s: %+v, want %q", tt.name, x, tt.want)
		}
	}
}

// A question changes nothing: the loop, the journal and other readers share what a view has.
func TestRestartsAfterChangesNothing(t *testing.T) {
	state := NewState()
	state.Run.Exit.Code = 3
	v := &View{Container: &runtime.Container{Name: "web"}, Spec: &Spec{RestartPolicy: OnFailure}, State: state}
	if v.RestartsAfter(0) || !v.RestartsAfter(7) {
		t.Error("OnFailure restarts after code 0, or not after 7")
	}
	if got := v.State.Run.Exit.Code; got != 3 {
		t.Errorf("after two questions the last exit code is %d", got)
	}
}

// Who is not ready is down where it should serve: notifications, the report and alerts ask the same question.
func TestShouldServe(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   func(v *View, s *State)
		want bool
	}{
		{"runs", func(*View, *State) {}, true},
		{"has wrong labels", func(v *View, _ *State) { v.Spec = nil }, false},
		{"is held", func(_ *View, s *State) { s.Lasting.HeldHere = true }, false},
		{"people are stopping it", func(_ *View, s *State) { s.Ending.First = time.Unix(1, 0) }, false},
		{"healthd was stopping it first", func(_ *View, s *State) { s.Ending.First, s.Action.Stopping = time.Unix(1, 0), ByLiveness }, true},
		{"was stopped by people", func(_ *View, s *State) {
			s.Engine.State, s.Run.Exit.Code, s.Ending.By = runtime.Exited, 143, EndedByOperator
		}, false},
		{"was stopped by people, who want it started again", func(_ *View, s *State) {
			s.Engine.State, s.Ending.By, s.Action.Restart = runtime.Exited, EndedByOperator, ByOperator
		}, true},
		{"has failed for good", func(_ *View, s *State) {
			s.Engine.State, s.Run.Exit.Code, s.Ending.By = runtime.Exited, 1, EndedByItself
		}, true},
		{"ended while nobody watched", func(_ *View, s *State) { s.Engine.State, s.Run.Exit.Code, s.Ending.By = runtime.Exited, 1, EndedUnseen }, true},
		{"was down when healthd came", func(_ *View, s *State) {
			s.Engine.State, s.Run.Exit.Code, s.Ending.By, s.Ending.NeverSeen = runtime.Exited, 143, EndedUnseen, true
		}, false},
		{"is done", func(_ *View, s *State) { s.Engine.State = runtime.Exited }, false},
		{"is done, and its engine is away", func(_ *View, s *State) { s.Engine.State, s.Lost = runtime.Exited, true }, false},
		{"is replaced by its orchestrator", func(v *View, s *State) {
			s.Engine.State, s.Run.Exit.Code, v.Spec = runtime.Exited, 1, &Spec{ManagedElsewhere: "Nomad"}
		}, false},
		{"has never run", func(_ *View, s *State) { s.Engine.State, s.Run = runtime.Created, Run{} }, false},
		{"has never run, and is being started", func(_ *View, s *State) {
			s.Engine.State, s.Run, s.Action.Restart = runtime.Created, Run{}, ByOperator
		}, true},
		{"the engine could not start it", func(v *View, s *State) {
			s.Engine.State, s.Run, v.Container.Error = runtime.Created, Run{}, "no such program"
		}, true},
	} {
		v := View{Spec: &Spec{}, Container: &runtime.Container{}, State: NewState()}
		v.State.Engine.State, v.State.Run.ID = runtime.Running, runtime.Run{ID: "web", Started: 1}
		if tt.is(&v, &v.State); v.ShouldServe() != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, !tt.want, tt.want)
		}
	}
}

// A deploy whose container the engine does not start shows the engine's words.
func TestRefusedFirstStartIsTold(t *testing.T) {
	v := View{Spec: &Spec{}, Container: &runtime.Container{Error: "port is already allocated"}, State: NewState()}
	v.State.Engine.State = runtime.Created
	const want = "the engine did not start it: port is already allocated"
	if w := v.Waiting(); w == nil || w.Reason != WaitStartError || w.Message != want {
		t.Errorf("%+v", w)
	}
	if _, reason, message := v.Readiness(); reason != NotReadyNotRun || message != want {
		t.Errorf("%s: %s", reason, message)
	}
}
