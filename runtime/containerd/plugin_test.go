package containerd_test

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

const (
	statusLabel = "containerd.io/restart.status"
	policyLabel = "containerd.io/restart.policy"
)

// runKept runs a container that containerd's restart plugin keeps running.
func runKept(t *testing.T, private *containerdtest.Engine) string {
	t.Helper()
	id := private.Run(t, containerdtest.RunOptions{Cmd: deafSleep, Labels: map[string]string{policyLabel: "always"}})
	private.SetLabel(t, "", id, statusLabel, "running")
	return id
}

// awaitPlugin returns when the restart plugin has looked at all containers, and acted: it has started the sentinel often
// enough, which it does once in each pass.
func awaitPlugin(t *testing.T, e *containerd.Engine, sentinel string) {
	t.Helper()
	for range 3 { // it is within a pass as the first begins, and acts on all containers at once as the second ends
		before := waitForState(t, e, sentinel, runtime.Running).Pid
		killProcess(t, before)
		scenarios.Eventually(t, "the restart plugin starts it", func() bool {
			c, err := e.Inspect(t.Context(), sentinel)
			return err == nil && c.State == runtime.Running && c.Pid != before
		})
	}
}

// The restart plugin starts no container that healthd has stopped, and looks after it again once healthd has started it.
func TestRestartPluginLeavesStopsAlone(t *testing.T) {
	e, private := engine(t)
	sentinel, id := runKept(t, private), runKept(t, private)
	if err := e.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	awaitPlugin(t, e, sentinel)
	if c := inspect(t, e, id); c.State != runtime.Exited || c.RestartPolicy != "no" {
		t.Fatalf("after healthd's stop: %s, the plugin's policy is %s", c.State, c.RestartPolicy)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if c := inspect(t, e, id); c.RestartPolicy != "always" {
		t.Errorf("after healthd's start the plugin's policy is %s", c.RestartPolicy)
	}
	awaitPlugin(t, e, id)
}

// nerdctl update --restart tells the plugin to keep a container stopped that has ended, and nerdctl's start takes it back.
func TestStartOfWhatTheRestartPluginKeepsStopped(t *testing.T) {
	e, private := engine(t)
	sentinel := runKept(t, private)
	id := private.Run(t, containerdtest.RunOptions{Cmd: deafSleep})
	if err := e.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	private.SetLabel(t, "", id, policyLabel, "always")
	private.SetLabel(t, "", id, statusLabel, "stopped")
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	before := inspect(t, e, id)
	awaitPlugin(t, e, sentinel)
	if c := inspect(t, e, id); c.Run() != before.Run() || c.State != runtime.Running || c.RestartPolicy != "always" {
		t.Errorf("healthd started %v, and the plugin left %v, %s, with the policy %s", before.Run(), c.Run(), c.State, c.RestartPolicy)
	}
}
