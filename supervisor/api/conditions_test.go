package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// formatCondition formats a condition in one line, with the seconds of its probe and change.
func formatCondition(c Condition) string {
	second := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return fmt.Sprint(t.Second())
	}
	text := fmt.Sprintf("%s=%s %s/%s", c.Type, c.Status, second(c.LastProbeTime), second(c.LastTransitionTime))
	if c.Reason != "" || c.Message != "" {
		text += fmt.Sprintf(" %s (%s)", c.Reason, c.Message)
	}
	return text
}

func TestConditions(t *testing.T) {
	probed := gatedContainer("probed")
	addProbe(probed, core.Startup, core.ProbeState{Result: prober.Success, OnHold: true, LastAt: at(1)})
	addProbe(probed, core.Readiness, core.ProbeState{Result: prober.Success, Outcome: prober.Success, LastAt: at(20)})
	open := gatedContainer("open")
	open.Spec.ReadinessGates = open.Spec.ReadinessGates[:1]
	open.State.Conditions.Ready.Status = true
	hooked := readyContainer("hooked")
	hooked.State.Conditions.Started.Status, hooked.State.Conditions.ContainerReady.Status, hooked.State.Conditions.Ready.Status = false, false, false
	hooked.State.Run.Hooks[core.PostStart] = core.HookRunning
	ended := backingOffContainer("ended")
	ended.Spec.ReadinessGates = []string{"ok"}
	ended.State.Gates = []core.Gate{{Type: "ok", Status: true, At: at(3)}}
	created := readyContainer("created")
	created.State = core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Created}}}
	for _, tt := range []struct {
		v    *core.View
		want string
	}{
		{probed, `Started=True 1/1
ContainerReady=True 20/2
Ready=False 20/7 ReadinessGatesNotReady (readiness gate ok is False)
example.com/warm=True -/5
ok=False -/7
never=False -/- NotSet (nobody has set it yet)`},
		{open, "Started=True -/1\nContainerReady=True -/2\nReady=True -/7\nexample.com/warm=True -/5"},
		{hooked, `Started=False -/1 PostStartPending (its post_start hook runs)
ContainerReady=False -/2 PostStartPending (its post_start hook runs)
Ready=False -/2 PostStartPending (its post_start hook runs)`},
		{ended, `Started=False -/25 NotRunning (exited)
ContainerReady=False -/2 NotRunning (exited)
Ready=False -/2 NotRunning (exited)
ok=True -/3`},
		{created, `Started=False -/- NotRunning (created)
ContainerReady=False -/- NotRunning (created)
Ready=False -/- NotRunning (created)`},
	} {
		var lines []string
		for _, c := range conditions(tt.v, time.Now()) {
			lines = append(lines, formatCondition(c))
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.v.Container.Name, got, tt.want)
		}
	}
}

func TestStatusGates(t *testing.T) {
	for _, tt := range []struct {
		s    Status
		want int
	}{{newStatus(gatedContainer("a"), time.Now()), 3}, {newStatus(readyContainer("b"), time.Now()), 0}, {Status{}, 0}} {
		if got := len(tt.s.Gates()); got != tt.want {
			t.Errorf("%s: %d gates, want %d", tt.s.Name, got, tt.want)
		}
	}
}

func TestTerminated(t *testing.T) {
	for _, tt := range []struct{ code, signal int }{
		{0, 0}, {1, 0}, {42, 0}, {127, 0}, {128, 0}, {129, 1}, {137, 9}, {143, 15}, {192, 64}, {193, 0}, {255, 0}, {-1, 0},
	} {
		v := readyContainer("web-1")
		v.State.Engine.State, v.State.Conditions.Ready.Status = runtime.Exited, false
		v.State.Run.Exit = core.Exit{Code: tt.code, Reason: core.ReasonError, StartedAt: at(1), FinishedAt: at(9)}
		v.State.Run.LastExit = core.Exit{Code: 143, Reason: core.ReasonStoppedByOperator, FinishedAt: at(0)}
		now, last := states(v, time.Now())
		want := Terminated{ExitCode: tt.code, Reason: "Error", Signal: tt.signal, StartedAt: at(1), FinishedAt: at(9)}
		if now.Terminated == nil || *now.Terminated != want || now.Running != nil || now.Waiting != nil {
			t.Errorf("exit code %d: %+v, want %+v", tt.code, now.Terminated, want)
		}
		if last.Terminated == nil || last.Terminated.Signal != 15 || last.Terminated.Reason != "StoppedByOperator" {
			t.Errorf("last state: %+v", last.Terminated)
		}
	}
}
