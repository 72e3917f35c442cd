package containerd_test

import (
	"syscall"
	"testing"

	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

var deafSleep = []string{"sleep", "1000"} // process 1 ignores TERM

// ctr tasks kill is nobody's stop, and nerdctl's label tells of each signal of its own.
func TestWatchKills(t *testing.T) {
	e, private := engine(t)
	l := scenarios.Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := private.Run(t, containerdtest.RunOptions{Name: "killed", Cmd: deafSleep, Labels: scenarios.Watched(t, nil)})
	n = l.WaitFor(t, n, "observed killed running")
	private.Signal(t, id, syscall.SIGKILL)
	n = l.WaitForEnd(t, n, "killed", 137)
	private.OperatorStops(t, id, syscall.SIGTERM) // of what has ended
	n = l.WaitFor(t, n, "stopped killed")
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n = l.WaitFor(t, n, "observed killed running")
	if c, err := private.Client().LoadContainer(private.In(t, ""), id); err != nil {
		t.Error(err)
	} else if labels, err := c.Labels(private.In(t, "")); labels["containerd.io/restart.explicitly-stopped"] != "false" {
		t.Errorf("healthd's start leaves the labels %v, %v: the restart plugin would not bring it back", labels, err)
	}
	private.OperatorStops(t, id, syscall.SIGHUP) // process 1 ignores it
	n = l.WaitFor(t, n, "killed killed 15")
	private.OperatorStops(t, id, syscall.SIGKILL) // the label does not change, but somebody sets it
	n = l.WaitFor(t, n, "killed killed 15")
	l.WaitForEnd(t, n, "killed", 137)
}

// Whoever subscribes learns at once up to where nothing is missing.
func TestFirstEventIsOfTheMomentAskedFor(t *testing.T) {
	e, _ := engine(t)
	since, err := e.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Subscribe(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Next(); err != nil || !first.Time.Equal(since) || first.Action != runtime.ActionExec {
		t.Errorf("got %+v, %v", first, err)
	}
}
