package main

import (
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
