package containerd_test

import (
	"os"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

func TestLogGoesOn(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sh", "-c", "echo ready; exec sleep 1000"}})
	for _, want := range []string{"ready\n", "ready\nready\n"} {
		scenarios.Eventually(t, "the log has "+want, func() bool { b, _ := os.ReadFile(private.LogFile(id)); return string(b) == want })
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

// A container has an output that can be written even where there is no log to go on with: its
// last output went to a client's FIFOs, or to a terminal.
func TestStartWithoutALog(t *testing.T) {
	e, private := engine(t)
	noLog := map[string]string{"nerdctl/log-uri": ""}
	terminal := private.Run(t, containerdtest.RunOptions{Terminal: true, Cmd: []string{"sh", "-c", "test -t 1 && echo hello && exec sleep 1000"}, Labels: noLog})
	silent := private.Create(t, containerdtest.RunOptions{Cmd: []string{"sh", "-c", "echo hello && exec sleep 1000"}, Labels: noLog})
	for _, id := range []string{terminal, silent} {
		if err := e.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		scenarios.Eventually(t, "it could write", func() bool { return scenarios.ProcessesRunning(id, "sleep") == 1 })
	}
}

// Somebody made a task and died before it was started.
func TestStartOfWhatIsMade(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	private.MakeTask(t, "", id)
	if c := inspect(t, e, id); c.State != runtime.Created {
		t.Errorf("got %+v", c)
	}
	if err := e.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if c := inspect(t, e, id); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
}

// An image may have a label of nerdctl's about networks. It does not keep a container down that
// has a network of its own.
func TestStartWithTheLabelOfASharedNetwork(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: deafSleep, Labels: map[string]string{"nerdctl/networks": `["container:none"]`}})
	if err := e.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
