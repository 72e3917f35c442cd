package main

import (
	"strings"
	"testing"
	"time"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// Whoever waits for a restart reads what it waits for, in words.
func TestProgressOfARestart(t *testing.T) {
	running := func(at int64) api.ContainerState {
		return api.ContainerState{Running: &api.Running{StartedAt: time.Unix(at, 0)}}
	}
	waiting := func(reason, message string) api.ContainerState {
		return api.ContainerState{Waiting: &api.Waiting{Reason: reason, Message: message}}
	}
	for _, tt := range []struct {
		now  api.ContainerState
		want string
	}{
		{running(1), "restart requested"},
		{waiting("Draining", ""), "draining and stopping"},
		{waiting(core.WaitRestarting, "is being started"), "stopped, is being started"},
		{waiting(core.WaitNetwork, "waits for its network"), "stopped, waiting: NetworkUnavailable: waits for its network"},
		{running(2), "running again"},
	} {
		if got := progress(api.Status{State: running(1)}, api.Status{State: tt.now}); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.now, got, tt.want)
		}
	}
}

// A container that drained and goes on in the same run gets no new one: the engine does not allow the stop.
func TestRestartThatIsGivenUp(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	c := newClient(socket, answerTimeout)
	var before api.Status
	if err := c.get(t.Context(), containerPath("web-1"), nil, &before); err != nil {
		t.Fatal(err)
	}
	now := before
	now.State = api.ContainerState{Waiting: &api.Waiting{Reason: core.WaitDraining}}
	var out strings.Builder
	err := (&app{stdout: &out}).waitForNewRun(t.Context(), c, before, now, time.Now())
	if err == nil || err.Error() != "cannot restart web-1: healthd has given the restart up: see healthd events web-1" || out.String() != "web-1: draining and stopping\n" {
		t.Errorf("got %v, %q", err, &out)
	}
}
