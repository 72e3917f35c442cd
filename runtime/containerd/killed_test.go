package containerd_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/typeurl/v2"
	"golang.org/x/sys/unix"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

// A shim waits for somebody who reads a command's output. A healthd that was killed does not: the
// next one lets the shim go on.
func TestKilledAsACommandStarts(t *testing.T) {
	onlyInRingTwo(t)
	private := private.Engine(t)
	fifos := t.TempDir()
	e := connect(t, private, containerd.Config{FIFODir: fifos})
	id := private.Run(t, containerdtest.RunOptions{Name: "deserted", Cmd: deafSleep})
	desert(t, private, id, filepath.Join(fifos, "healthd-killed", "1"))
	if _, err := e.Subscribe(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if c := inspect(t, e, id); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
	if err := e.Stop(t.Context(), id, 0); err != nil {
		t.Error(err)
	}
}

// desert starts a command, and leaves when it runs and the shim waits for a reader.
func desert(t *testing.T, private *containerdtest.Engine, id, dir string) {
	t.Helper()
	ctx := private.In(t, "")
	spec, err := private.Task(t, id).Spec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	spec.Process.Args = []string{"tail", "-f", "/dev/null"}
	process, err := typeurl.MarshalAnyToProto(spec.Process)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
	for _, err := range []error{os.MkdirAll(dir, 0o700), unix.Mkfifo(out, 0o600), unix.Mkfifo(errs, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dying, err := client.New(private.Path("c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dying.TaskService().Exec(ctx, &tasks.ExecProcessRequest{ContainerID: id, ExecID: "deserted", Stdout: out, Stderr: errs, Spec: process}); err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = dying.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: id, ExecID: "deserted"})
	}()
	scenarios.Eventually(t, "the command runs", func() bool { return scenarios.ProcessesRunning(id, "tail") == 1 })
	_ = dying.Close()
	<-left
}

// An operator stops a container that two healthds were stopping when they were killed. The next
// healthd tells all stops, or it would take the operator's for its own and start the container again.
func TestStopsOfAKilledHealthdAndAnOperator(t *testing.T) {
	onlyInRingTwo(t)
	private := private.Engine(t)
	state := t.TempDir()
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sh", "-c", "trap 'tail -f /dev/null &' TERM; while :; do sleep 0.1; done"}})
	scenarios.Eventually(t, "the command has set its trap", func() bool { return scenarios.ProcessesRunning(id, "sleep") > 0 })
	var run runtime.Run
	for i := range 2 {
		killed := connect(t, private, containerd.Config{StateDir: state})
		run = inspect(t, killed, id).Run()
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- killed.Stop(ctx, id, time.Hour) }()
		scenarios.Eventually(t, "the signal has come", func() bool { return scenarios.ProcessesRunning(id, "tail") == i+1 })
		cancel()
		if err := <-stopped; err == nil {
			t.Fatal("it stopped")
		}
		if err := killed.Close(); err != nil {
			t.Fatal(err)
		}
	}
	private.OperatorStops(t, id, unix.SIGKILL)
	next := connect(t, private, containerd.Config{StateDir: state})
	waitForState(t, next, id, runtime.Exited)
	kills, err := next.KillEvents(t.Context(), run)
	if err != nil || len(kills) != 3 || !kills[0].Time.Before(kills[1].Time) || !kills[1].Time.Before(kills[2].Time) {
		t.Errorf("got %+v, %v; want three stops", kills, err)
	}
}
