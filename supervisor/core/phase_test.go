package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
)

// pod is the containers of one service, each in its own simulation.
type pod []*simulation

func newPod(t *testing.T, containers int, policy RestartPolicy) pod {
	t.Helper()
	p := make(pod, containers)
	for i := range p {
		p[i] = newSimulation(t)
		p[i].spec.RestartPolicy = policy
		p[i].playNow("runs")
	}
	return p
}

func (p pod) phase() Phase {
	var members []*View
	for _, sim := range p {
		members = append(members, sim.view())
	}
	return ServicePhase(members)
}

// afterEnd is what follows when containers end.
type afterEnd struct {
	container Phase // of each ended container
	service   Phase
	starts    bool // healthd starts the ended containers again
}

// The examples of Kubernetes' page "Pod Lifecycle" under each restart policy.
func TestServicePhaseAfterExit(t *testing.T) {
	restarts := afterEnd{PhaseRunning, PhaseRunning, true}
	succeeds := afterEnd{PhaseSucceeded, PhaseSucceeded, false}
	fails := afterEnd{PhaseFailed, PhaseFailed, false}
	failsHalf := afterEnd{PhaseFailed, PhaseRunning, false}
	const completed, failed, oom = `Exited "Container web exited with code 0 (Completed)"`,
		`Exited "Container web exited with code 1 (Error)"`, `OOMKilled "Container web exited with code 137 (OOMKilled)"`
	for _, tt := range []struct {
		name                     string
		containers               int
		ends                     []string // of the first container, the second one
		event                    string
		always, onFailure, never afterEnd
	}{
		{"one of one exits with success", 1, []string{"exits 0"}, completed, restarts, succeeds, succeeds},
		{"one of one exits with failure", 1, []string{"exits 1"}, failed, restarts, restarts, fails},
		{"one of two exits with failure", 2, []string{"exits 1"}, failed, restarts, restarts, failsHalf},
		{"two of two exit with failure", 2, []string{"exits 1", "exits 1"}, failed, restarts, restarts, fails},
		{"one of one is out of memory", 1, []string{"oom 137"}, oom, restarts, restarts, fails},
	} {
		for policy, want := range map[RestartPolicy]afterEnd{Always: tt.always, OnFailure: tt.onFailure, Never: tt.never} {
			t.Run(fmt.Sprintf("%s/%s", tt.name, policy), func(t *testing.T) {
				p := newPod(t, tt.containers, policy)
				if got := p.phase(); got != PhaseRunning {
					t.Errorf("before: %s", got)
				}
				for i, end := range tt.ends {
					p[i].playNow(end)
				}
				if got := p.phase(); got != want.service {
					t.Errorf("service: %s, want %s", got, want.service)
				}
				for i := range tt.ends {
					checkAfterEnd(t, p[i], tt.event, want)
				}
			})
		}
	}
}

// checkAfterEnd checks one container that has just ended, now and an hour later.
func checkAfterEnd(t *testing.T, sim *simulation, event string, want afterEnd) {
	t.Helper()
	if got := sim.view().Phase(); got != want.container {
		t.Errorf("container: %s, want %s", got, want.container)
	}
	if n := strings.Count(sim.transcript.String(), event); n != 1 {
		t.Errorf("%d times %s, want once, in\n%s", n, event, &sim.transcript)
	}
	sim.advanceTo(sim.now.Add(time.Hour))
	if got := sim.state.Engine.State == runtime.Running; got != want.starts || sim.state.RestartCount() > 1 {
		t.Errorf("started again: %v, want %v; %d restarts", got, want.starts, sim.state.RestartCount())
	}
	if got := sim.view().Phase(); got != want.container {
		t.Errorf("container, later: %s, want %s", got, want.container)
	}
}

// A container in back-off keeps its service Running.
func TestServicePhaseInBackOff(t *testing.T) {
	p := newPod(t, 2, OnFailure)
	p[1].playNow("exits 0")
	for range 2 {
		p[0].advanceTo(p[0].now.Add(time.Second))
		p[0].playNow("exits 1")
	}
	if got := p[0].view().Waiting(); got == nil || got.Reason != WaitCrashLoop {
		t.Fatalf("it waits for %+v", got)
	}
	if got := p.phase(); got != PhaseRunning {
		t.Errorf("service: %s", got)
	}
}

func TestPhases(t *testing.T) {
	run := runtime.Run{ID: "c", Started: 1}
	for _, tt := range []struct {
		name  string
		state State
		want  Phase
	}{
		{"created", State{Kept: &Kept{Engine: Engine{State: runtime.Created}}}, PhasePending},
		{"first start under way", State{Kept: &Kept{Engine: Engine{State: runtime.Created}, Action: Action{Restart: ByOperator, Call: StartCall}}}, PhasePending},
		{"running", State{Kept: &Kept{Engine: Engine{State: runtime.Running}, Run: Run{ID: run}}}, PhaseRunning},
		{"paused", State{Kept: &Kept{Engine: Engine{State: runtime.Paused}, Run: Run{ID: run}}}, PhaseRunning},
		{"restarted by the engine", State{Kept: &Kept{Engine: Engine{State: runtime.Restarting}, Run: Run{ID: run, Exit: Exit{Code: 1}}}}, PhaseRunning},
		{"start due", State{Kept: &Kept{Engine: Engine{State: runtime.Exited}, Run: Run{ID: run, Exit: Exit{Code: 1}}, Action: Action{Restart: ByExit}}}, PhaseRunning},
		{"ended well", State{Kept: &Kept{Engine: Engine{State: runtime.Exited}, Run: Run{ID: run}}}, PhaseSucceeded},
		{"ended badly", State{Kept: &Kept{Engine: Engine{State: runtime.Dead}, Run: Run{ID: run, Exit: Exit{Code: 1}}}}, PhaseFailed},
		{"engine away", State{Kept: &Kept{Engine: Engine{State: runtime.Running}, Run: Run{ID: run}}, Lost: true}, PhaseUnknown},
	} {
		v := &View{State: tt.state}
		if got := v.Phase(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := ServicePhase([]*View{v, v}); got != tt.want {
			t.Errorf("service of them, %s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestServicePhaseOfDifferentMembers(t *testing.T) {
	run := runtime.Run{ID: "c", Started: 1}
	pending := &View{State: State{Kept: &Kept{Engine: Engine{State: runtime.Created}}}}
	running := &View{State: State{Kept: &Kept{Engine: Engine{State: runtime.Running}, Run: Run{ID: run}}}}
	succeeded := &View{State: State{Kept: &Kept{Engine: Engine{State: runtime.Exited}, Run: Run{ID: run}}}}
	failed := &View{State: State{Kept: &Kept{Engine: Engine{State: runtime.Exited}, Run: Run{ID: run, Exit: Exit{Code: 1}}}}}
	lost := &View{State: State{Kept: &Kept{Engine: Engine{State: runtime.Running}, Run: Run{ID: run}}, Lost: true}}
	for _, tt := range []struct {
		name    string
		members []*View
		want    Phase
	}{
		{"no members", nil, PhasePending},
		{"one has not run yet", []*View{running, pending, failed}, PhasePending},
		{"one still runs", []*View{failed, running, succeeded}, PhaseRunning},
		{"one failed", []*View{succeeded, failed}, PhaseFailed},
		{"the engine of one is away", []*View{running, pending, lost}, PhaseUnknown},
	} {
		if got := ServicePhase(tt.members); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestStartedEndsWithRun(t *testing.T) {
	sim := newSimulation(t)
	sim.spec.RestartPolicy = Never
	sim.playNow("runs")
	if started, since := sim.view().Started(); !started || !since.Equal(sim.start) {
		t.Errorf("running: %v since %v", started, since)
	}
	sim.advanceTo(sim.start.Add(time.Minute))
	sim.playNow("exits 0")
	if started, since := sim.view().Started(); started || !since.Equal(sim.now) {
		t.Errorf("ended: %v since %v, want false since %v", started, since, sim.now)
	}
}

// The kernel may have killed a child of the container's process, perhaps long before the end.
func TestOutOfMemoryOnlyWhenKilled(t *testing.T) {
	for _, tt := range []struct {
		oom  bool
		code int
		want string
	}{{true, 137, ReasonOOMKilled}, {true, 0, ReasonCompleted}, {true, 1, ReasonError}, {false, 137, ReasonError}} {
		if got := exitOf(&runtime.Container{OOMKilled: tt.oom, ExitCode: tt.code}).Reason; got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}
