package containerd_test

import (
	"errors"
	"syscall"
	"testing"

	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
)

// nerdctl rm -f: its kill looks like a crash, and healthd is about to start it again.
func TestStartOfWhatIsRemoved(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	for range 5 {
		id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "removed", Cmd: deafSleep}))
		n = d.waitFor(t, n, "observed removed running")
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			private.Remove(t, id)
		}()
		n = d.waitFor(t, n, "died removed 137")
		err := e.Start(t.Context(), id)
		<-removed
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		t.Log(err)
		private.Remove(t, id)
		n = d.waitFor(t, n, "removed removed")
	}
}

// containerd's restart plugin starts it, too.
func TestStartBesideTheRestartPlugin(t *testing.T) {
	e, private := engine(t)
	d := watch(t, e)
	n := d.waitFor(t, 0, "synced start")
	id := private.Run(t, watched(t, containerdtest.RunOptions{Name: "twice", Cmd: deafSleep, Labels: map[string]string{"containerd.io/restart.policy": "always"}}))
	n = d.waitFor(t, n, "observed twice running")
	private.SetLabel(t, "", id, "containerd.io/restart.status", "running") // the plugin would be faster than the test
	n = d.waitFor(t, n, "observed twice running")
	private.Signal(t, id, syscall.SIGKILL)
	n = d.waitFor(t, n, "died twice 137", "observed twice running")
	for range 3 {
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	d.waitFor(t, n, "observed twice running")
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
