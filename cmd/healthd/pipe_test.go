package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"healthd/supervisor/core"
)

// intoClosedPipe runs the program with no reader of what it prints.
func intoClosedPipe(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	var b bytes.Buffer
	cmd := program(t, args...)
	cmd.Stderr = &b
	cmd.Stdout = closedPipe(t)
	return exitCode(t, cmd), b.String()
}

// intoClosedStderr runs the program with no reader of its errors.
func intoClosedStderr(t *testing.T, args ...string) (code int) {
	t.Helper()
	cmd := program(t, args...)
	cmd.Stderr = closedPipe(t)
	return exitCode(t, cmd)
}

// closedPipe is a pipe that has lost its reader.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	r.Close()
	return w
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// head has what it wants and goes: the containers after that are held all the same.
func TestHoldThatNobodyReads(t *testing.T) {
	f := &fake{}
	socket, _ := daemonWith(t, f, container("web-1", nil), container("web-2", nil), container("web-3", nil))
	const lost = "healthd: cannot print: write /dev/stdout: broken pipe\n"
	for _, args := range []string{"hold web-1 web-2 web-3", "hold --all"} {
		code, stderr := intoClosedPipe(t, append(strings.Fields(args), "--socket", socket)...)
		if held := f.takeHeld(); code != 1 || stderr != lost || held != 3 {
			t.Errorf("%s: exit code %d, %q, %d held", args, code, stderr, held)
		}
	}
	code, stderr := intoClosedPipe(t, "hold", "web-1", "nothing", "web-2", "--socket", socket)
	if held := f.takeHeld(); code != 1 || held != 2 || !strings.Contains(stderr, "cannot hold nothing: ") || !strings.HasSuffix(stderr, lost) {
		t.Errorf("exit code %d, %q, %d held", code, stderr, held)
	}
}

// A restart is waited for, so that the exit code tells what came of it.
func TestRestartThatNobodyReads(t *testing.T) {
	t.Parallel()
	socket, _ := daemonWith(t, &fake{}, container("web-1", func(v *core.View) { v.State.Lasting.HeldHere = true }))
	code, stderr := intoClosedPipe(t, "restart", "web-1", "--timeout", "5s", "--socket", socket)
	if code != 1 || !strings.Contains(stderr, "cannot see the new run of web-1: it has not begun after 5s; the restart goes on\n") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// What only prints ends at once, as others do, and says nothing.
func TestStatusThatNobodyReads(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	if code, stderr := intoClosedPipe(t, "status", "--socket", socket); code != -1 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
