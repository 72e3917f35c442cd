package containerd_test

import (
	"errors"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
)

// nerdctl rm removes the snapshot first, and then the container.
func TestStartWithoutItsSnapshot(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Cmd: deafSleep})
	if err := private.Client().SnapshotService("overlayfs").Remove(private.In(t, ""), id); err != nil {
		t.Fatal(err)
	}
	removed := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		defer close(removed)
		private.Remove(t, id)
	})
	if err := e.Start(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	<-removed
}

func TestBadLabels(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Name: "garbage", Labels: map[string]string{
		"nerdctl/networks": "{", "nerdctl/stop-timeout": "abc", "nerdctl/auto-remove": "maybe", "nerdctl/healthstate": "[]", "nerdctl/healthcheck": "nonsense",
		"containerd.io/restart.explicitly-stopped": "perhaps", "containerd.io/restart.status": "?", "io.containerd.image.config.stop-signal": "SIGNONSENSE",
		"nerdctl/log-uri": "::", "containerd.io/restart.policy": "sometimes", "nerdctl/state-dir": "/etc",
	}})
	private.Create(t, containerdtest.RunOptions{Name: "circle", ID: "circle", Labels: map[string]string{"nerdctl/networks": `["container:circle"]`}})
	c := inspect(t, e, id)
	if c.State != runtime.Created || c.StopTimeout >= 0 || c.RestartPolicy != "no" || c.AutoRemove || c.HasHealthcheck || c.StopSignalNumber() != 15 || c.NetworkOwner != "" {
		t.Errorf("got %+v", c)
	}
	inspect(t, e, "circle")
	if _, err := e.List(t.Context()); err != nil {
		t.Error(err)
	}
	if status, _, err := e.Health(t.Context(), id); status != "none" || err != nil {
		t.Errorf("got %q, %v", status, err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// No process can be sent such a signal: a stop that began with it would fail, and never come to KILL.
func TestStopSignalsThatAreNone(t *testing.T) {
	e, private := engine(t)
	for _, signal := range []string{"4096", "-1"} {
		id := private.Run(t, containerdtest.RunOptions{StopSignal: signal, Cmd: deafSleep})
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Errorf("stop signal %s: %v", signal, err)
		}
	}
}
