package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
)

// `healthd restart` during a docker stop overrules it. The KILL of that docker stop is no
// new stop.
func TestRestartRequestedDuringStop(t *testing.T) {
	sim := newSimulation(t)
	sim.noTranscript, sim.stopTakes = true, time.Hour
	sim.play("0s runs", "10s signalled 15", "15s restart-asked", "20s signalled 9")
	sim.endRun(137)
	sim.step("", &Input{Kind: Observed})
	if s := &sim.state; s.OperatorStopped() || s.Action.Restart != ByOperator {
		t.Errorf("stopped by an operator: %v, to be started: %v", s.OperatorStopped(), s.Action.Restart)
	}
}

// A process that ends as its stop signal says has done nothing wrong, whoever asked healthd to send it.
func TestReasonOfAStopThatSomebodyAskedFor(t *testing.T) {
	for _, tt := range []struct {
		stopping Cause
		signal   string
		code     int
		want     string
	}{
		{ByOperator, "", 143, ReasonCompleted},
		{ByNetwork, "", 143, ReasonCompleted},
		{ByOperator, "QUIT", 131, ReasonCompleted},
		{ByOperator, "QUIT", 143, ReasonError},
		{ByOperator, "", 137, ReasonError}, // the grace period was too short
		{ByOperator, "", 1, ReasonError},
		{NoCause, "", 143, ReasonError},
		{ByLiveness, "", 143, ReasonLivenessFailed},
	} {
		s := stepper{State: State{Kept: &Kept{Action: Action{Stopping: tt.stopping}}}, c: &runtime.Container{StopSignal: tt.signal}}
		if got := s.exit(tt.code).Reason; got != tt.want {
			t.Errorf("stopped %v with %q, exit code %d: %s, want %s", tt.stopping, tt.signal, tt.code, got, tt.want)
		}
	}
}

// A start that fails because the container is gone is no failure of the container; another one is, and calls it by its name.
func TestFailedStart(t *testing.T) {
	c := &runtime.Container{ID: strings.Repeat("3e", 32), Name: "web", State: runtime.Exited, StartedAt: time.Unix(1, 0), FinishedAt: time.Unix(2, 0)}
	for _, tt := range []struct {
		name, want string // the event
		err        error
		delay      time.Duration // of the back-off
	}{
		{"it is gone", "", fmt.Errorf("cannot start container %s: %w", c.ID[:12], runtime.ErrNotFound), 0},
		{"it cannot be started", "cannot start container web: no such file; healthd tries again in 10s (to keep it down: healthd hold web)", fmt.Errorf("cannot start container %s: no such file", c.ID[:12]), 10 * time.Second},
	} {
		s, now := NewState(), time.Unix(10, 0)
		s.Engine.State, s.Run.ID, s.Run.Exit.FinishedAt = runtime.Exited, c.Run(), c.FinishedAt
		s.Action, s.Request.Run = Action{Restart: ByExit, Call: StartCall, NotBefore: now}, c.Run()
		spec := &Spec{RestartPolicy: Always, Backoff: Backoff{Initial: 10 * time.Second, Max: time.Minute, ResetAfter: time.Minute}}
		after, fx := Step(spec, c, &s, &Input{Kind: CallReturned, Call: StartCall, Err: tt.err}, now, &Room{})
		told := ""
		for _, f := range fx {
			told += f.Message
		}
		if told != tt.want || after.Lasting.Backoff.Delay != tt.delay || after.Action.Restart != ByExit || !after.Action.NotBefore.Equal(now.Add(callRetryPause)) {
			t.Errorf("%s: %q, back-off %v, next %v", tt.name, told, after.Lasting.Backoff.Delay, after.Action.NotBefore)
		}
	}
}
