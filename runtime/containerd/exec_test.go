package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/containerd/containerdtest"
)

func TestExec(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	for _, tt := range []struct {
		name   string
		argv   []string
		limit  int
		output string
		code   int
	}{
		{"success", []string{"true"}, 100, "", 0},
		{"exit code", []string{"sh", "-c", "exit 7"}, 100, "", 7},
		{"killed by a signal", []string{"sh", "-c", "kill -9 $$"}, 100, "", 137},
		{"no shell", []string{"echo", "$HOME", "*"}, 100, "$HOME *\n", 0},
		{"stdout before stderr", []string{"sh", "-c", "echo err >&2; echo out; exit 3"}, 100, "out\nerr\n", 3},
		{"limit over both", []string{"sh", "-c", "echo 12345; echo 67890 >&2"}, 8, "12345\n67", 0},
		{"more output than a pipe holds", []string{"sh", "-c", "yes | head -c 1000000; exit 4"}, 6, "y\ny\ny\n", 4},
		{"no output wanted", []string{"echo", "hello"}, 0, "", 0},
		{"a shell's own not found", []string{"sh", "-c", "/nosuch; exit $?"}, 0, "", 127},
		{"output held open", []string{"sh", "-c", "echo here; sleep 1000 & exit 1"}, 100, "here\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			output, code, timedOut, err := e.Exec(t.Context(), id, tt.argv, 20*time.Second, tt.limit, nil)
			if string(output) != tt.output || code != tt.code || timedOut || err != nil {
				t.Errorf("got %q, %d, %v, %v; want %q, %d", output, code, timedOut, err, tt.output, tt.code)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	// A newer engine would tell of no end while the one that a command left lives.
	if n := len(processesRunning(id, "sleep")); n != 1 && n != 2 {
		t.Errorf("got %d sleeps, want the container's and maybe the one that a command left", n)
	}
}

// While an output is held open, engines tell seconds later of the ends of other
// commands, and newer ones of the command's own.
func TestExecAfterOneThatHoldsItsOutput(t *testing.T) {
	const timeout = 30 * time.Second
	e, private := engine(t)
	for name, child := range map[string]string{"a child": "sleep 1111", "one of its own session": "setsid sleep 1111"} {
		t.Run(name, func(t *testing.T) {
			id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
			began := time.Now()
			for i := range 10 {
				began := time.Now()
				argv := []string{"sh", "-c", fmt.Sprintf("%s & exit %d", child, i)}
				_, code, timedOut, err := e.Exec(t.Context(), id, argv, timeout, 100, nil)
				if code != i || timedOut || err != nil {
					t.Errorf("exit code %d, timed out %v, %v, want exit code %d", code, timedOut, err, i)
				}
				if took := time.Since(began); took > timeout/3 {
					t.Errorf("command %d took %v", i, took)
				}
			}
			if took := time.Since(began); took > timeout/2 { // the engine's own pace makes it 35 s
				t.Errorf("all took %v", took)
			}
			if n := len(processesRunning(id, "sleep")); n > 2 {
				t.Errorf("%d sleeps are left, so they pile up", n)
			}
		})
	}
}

// Several probes of a container ask at once, and each command holds its output open.
func TestExecBesideOthersThatHoldTheirOutput(t *testing.T) {
	const timeout = 30 * time.Second
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			began := time.Now()
			argv := []string{"sh", "-c", fmt.Sprintf("sleep 1111 & exit %d", i)}
			_, code, timedOut, err := e.Exec(t.Context(), id, argv, timeout, 100, nil)
			if took := time.Since(began); code != i || timedOut || err != nil || took > timeout/2 {
				t.Errorf("exit code %d, timed out %v, %v after %v, want exit code %d", code, timedOut, err, took, i)
			}
		})
	}
	all.Wait()
}

// What is killed as it delays others is what they wait for, and nothing else.
func TestExecSparesWhatDelaysNobody(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	do := func(script string, timeout time.Duration) {
		t.Helper()
		if _, code, timedOut, err := e.Exec(t.Context(), id, []string{"sh", "-c", script}, timeout, 100, nil); code != 0 || timedOut || err != nil {
			t.Errorf("%s: exit code %d, timed out %v, %v", script, code, timedOut, err)
		}
	}
	do("nc -l -p 9999 >/dev/null 2>&1 &", time.Minute) // holds no output
	do("tail -f /dev/null &", time.Duration(1<<63-1))  // a hook's
	for range 3 {
		do("sleep 1111 &", time.Minute)
	}
	for program, want := range map[string]int{"nc": 1, "tail": 2} {
		if n := len(processesRunning(id, program)); n != want {
			t.Errorf("%d of %s are there, want %d", n, program, want)
		}
	}
}

// A command runs as the container's main process does.
func TestExecIsLikeTheMainProcess(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{User: 1234, Env: []string{"SAID=hello"}, Cmd: []string{"sleep", "1000"}})
	output, code, _, err := e.Exec(t.Context(), id, []string{"sh", "-c", "id -u; id -g; pwd; echo $SAID; test -t 0 || grep CapEff /proc/self/status /proc/1/status | cut -d: -f3 | uniq | wc -l"}, time.Minute, 1000, nil)
	if want := "1234\n1234\n/\nhello\n1\n"; string(output) != want || code != 0 || err != nil {
		t.Errorf("got %q, %d, %v; want %q", output, code, err, want)
	}
}

func TestExecTimeoutKillsTheTree(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	for name, script := range map[string]string{
		"one process":           "exec sleep 1001",
		"a child":               "echo hello; sleep 1001; echo never",
		"children of children":  "sh -c 'sleep 1001 & sleep 1001'; sleep 1001",
		"an orphan":             "(sleep 1001 &); sleep 1001",
		"an orphan of its own":  "(setsid sh -c 'sleep 1001; true' &); sleep 1001",
		"deaf":                  "trap '' TERM INT HUP; while :; do sleep 1001; done",
		"breeding":              "f() { sleep 1001 & sleep 0.01; f; }; f",
		"output into its pipes": "yes",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			output, _, timedOut, err := e.Exec(t.Context(), id, []string{"sh", "-c", script}, 300*time.Millisecond, 1000, nil)
			if !timedOut || err != nil {
				t.Fatalf("got %q, %v, %v; want a timeout", output, timedOut, err)
			}
			if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if name == "a child" && string(output) != "hello\n" {
				t.Errorf("got output %q", output)
			}
			for _, left := range []string{"sleep", "yes", "sh"} {
				if pids := processesRunning(id, left); len(pids) > 0 {
					t.Errorf("left %s: %v", left, pids)
				}
			}
		})
	}
	if c, err := e.Inspect(t.Context(), id); err != nil || c.State != runtime.Running {
		t.Errorf("the container: got %+v, %v; want it running", c, err)
	}
}

func TestExecTellsThatTheProcessRuns(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	calls := 0
	_, code, timedOut, err := e.Exec(t.Context(), id, []string{"sleep", "3"}, time.Minute, 100, func() {
		calls++
		eventually(t, "the process runs", func() bool { return len(processesRunning(id, "sleep")) == 1 })
	})
	if calls != 1 || code != 0 || timedOut || err != nil {
		t.Errorf("told %d times; exit code %d, timed out %v, %v", calls, code, timedOut, err)
	}
	calls = 0
	if _, _, _, err := e.Exec(t.Context(), id, []string{"/nosuch"}, time.Minute, 100, func() { calls++ }); err == nil || calls > 0 {
		t.Errorf("told %d times of a process that was not started: %v", calls, err)
	}
}

func TestExecCancelled(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually(t, "the command runs", func() bool { return len(processesRunning(id, "sleep")) == 1 })
	}()
	_, _, timedOut, err := e.Exec(ctx, id, []string{"sleep", "1000"}, time.Minute, 100, nil)
	if !errors.Is(err, context.Canceled) || timedOut {
		t.Errorf("got %v, %v; want it cancelled", timedOut, err)
	}
	eventually(t, "the command is gone", func() bool { return len(processesRunning(id, "sleep")) == 0 })
}

func TestExecThatCannotBeAsked(t *testing.T) {
	e, private := engine(t)
	running := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	stopped := private.Create(t, containerdtest.RunOptions{})
	paused := private.Run(t, containerdtest.RunOptions{})
	if err := private.Task(t, paused).Pause(private.In(t, "")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, id string
		argv     []string
		is       error
		says     string
	}{
		{"no such binary", running, []string{"/nosuch"}, nil, "no such file"},
		{"not executable", running, []string{"/etc"}, nil, "permission denied"},
		{"no such container", "0123", []string{"true"}, runtime.ErrNotFound, "cannot run a command in container 0123"},
		{"not running", stopped, []string{"true"}, nil, "is not running"},
		{"paused", paused, []string{"true"}, nil, "paused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, timedOut, err := e.Exec(t.Context(), tt.id, tt.argv, time.Minute, 100, nil)
			if err == nil || timedOut || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, %v; want an error that says %q", timedOut, err, tt.says)
			}
			t.Log(err)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %v", err, tt.is)
			}
		})
	}
}

func TestExecWhenTheContainerDies(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	go func() {
		eventually(t, "the command runs", func() bool { return len(processesRunning(id, "sleep")) == 1 })
		private.Signal(t, id, syscall.SIGKILL)
	}()
	_, code, timedOut, err := e.Exec(t.Context(), id, []string{"sleep", "1000"}, time.Minute, 100, nil)
	if timedOut || (err == nil && code != 137) {
		t.Errorf("got %d, %v, %v; want 137 or an error", code, timedOut, err)
	}
}

// commands returns the processes of the container that run the program.
func processesRunning(id, program string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, dir := range dirs {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		name, _, _ := strings.Cut(string(args), "\x00")
		if filepath.Base(name) != program {
			continue
		}
		if group, _ := os.ReadFile(filepath.Join(dir, "cgroup")); strings.Contains(string(group), id) {
			found = append(found, dir)
		}
	}
	return found
}

// Two healthds may ask in one container: neither ends what the other's commands do.
func TestExecOfAnotherHealthdGoesOn(t *testing.T) {
	e, private := engine(t)
	other := connect(t, private, containerd.Config{})
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	answered := make(chan error, 1)
	go func() {
		_, code, timedOut, err := other.Exec(t.Context(), id, []string{"sh", "-c", "sleep 4; exit 0"}, time.Minute, 100, nil)
		if code != 0 || timedOut {
			err = fmt.Errorf("exit code %d, timed out %v, %w", code, timedOut, err)
		}
		answered <- err
	}()
	eventually(t, "the other's command runs", func() bool { return len(processesRunning(id, "sleep")) == 1 })
	for range 3 {
		if _, code, _, err := e.Exec(t.Context(), id, []string{"sh", "-c", "sleep 1111 & exit 0"}, time.Minute, 100, nil); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
	}
	if err := <-answered; err != nil {
		t.Errorf("the other's command: %v", err)
	}
}
