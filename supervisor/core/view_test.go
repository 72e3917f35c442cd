package core

import (
	"testing"

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
