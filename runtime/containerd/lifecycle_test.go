package containerd_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

func TestStopAndStart(t *testing.T) {
	e, private := engine(t)
	for _, tt := range []struct {
		name  string
		o     containerdtest.RunOptions
		grace time.Duration
		code  int
	}{
		{"signal", containerdtest.RunOptions{Cmd: []string{"sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"}}, 20 * time.Second, 5},
		{"its own signal", containerdtest.RunOptions{StopSignal: "SIGUSR1", Cmd: []string{"sh", "-c", "trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done"}}, 20 * time.Second, 6},
		{"deaf", containerdtest.RunOptions{Cmd: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"}}, 300 * time.Millisecond, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := private.Run(t, tt.o)
			waitForLog(t, private, id, "ready\n")
			before := inspect(t, e, id)
			began := time.Now()
			for range 2 {
				if err := e.Stop(t.Context(), id, tt.grace); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			ended := inspect(t, e, id)
			if ended.State != runtime.Exited || ended.ExitCode != tt.code || ended.Run() != before.Run() || ended.Pid != 0 {
				t.Errorf("got %+v, want exit code %d of the same run", ended, tt.code)
			}
			began = time.Now()
			if err := e.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			t.Logf("started in %v", time.Since(began))
			if err := e.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			after := inspect(t, e, id)
			if after.State != runtime.Running || after.Run() == before.Run() || !after.StartedAt.After(ended.FinishedAt) || !after.FinishedAt.IsZero() {
				t.Errorf("got %+v, want a new run", after)
			}
			waitForLog(t, private, id, "ready\nready\n")
		})
	}
}

func waitForLog(t *testing.T, private *containerdtest.Engine, id, want string) {
	t.Helper()
	eventually(t, "the log has "+want, func() bool { b, _ := os.ReadFile(private.LogFile(id)); return string(b) == want })
}

func TestPausedIsStopped(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	if err := private.Task(t, id).Pause(private.In(t, "")); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context(), id, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if c := inspect(t, e, id); c.State != runtime.Exited || c.ExitCode != 137 {
		t.Errorf("got %+v", c)
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
		eventually(t, "it could write", func() bool { return len(processesRunning(id, "sleep")) == 1 })
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

func TestStartOfManyAtOnce(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	private.Signal(t, id, syscall.SIGKILL)
	waitForState(t, e, id, runtime.Exited)
	errs := make(chan error)
	for range 8 {
		go func() { errs <- connectQuiet(private).Start(t.Context(), id) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if c := inspect(t, e, id); c.State != runtime.Running {
		t.Errorf("got %+v", c)
	}
}

// connectQuiet returns a client without records.
func connectQuiet(private *containerdtest.Engine) *containerd.Engine {
	e, err := containerd.New(containerd.Config{Endpoint: private.Endpoint})
	if err != nil {
		panic(err)
	}
	return e
}

func TestStartThatFails(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Cmd: []string{"/nosuch"}})
	err := e.Start(t.Context(), id)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	t.Log(err)
	if c := inspect(t, e, id); c.State != runtime.Created {
		t.Errorf("got %+v", c)
	}
}

func TestStartJoinsTheNetworkOfTheOwnersNewRun(t *testing.T) {
	e, private := engine(t)
	owner := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	id := private.Run(t, containerdtest.RunOptions{Network: "container:" + owner, Cmd: []string{"sleep", "1000"}})
	for _, c := range []string{id, owner} {
		if err := e.Stop(t.Context(), c, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("started without the owner of its network: %v", err)
	}
	for _, c := range []string{owner, id} {
		if err := e.Start(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	a, b := inspect(t, e, owner), inspect(t, e, id)
	if got, want := netns(t, b.Pid), netns(t, a.Pid); got != want || !b.NetworkOwnerStartedAt.Equal(a.StartedAt) {
		t.Errorf("got %s, want %s; %+v", got, want, b)
	}
	private.Remove(t, owner)
	if c := inspect(t, e, id); !c.NetworkOwnerGone {
		t.Errorf("got %+v", c)
	}
}

func netns(t *testing.T, pid int) string {
	t.Helper()
	name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		t.Fatal(err)
	}
	return name
}
