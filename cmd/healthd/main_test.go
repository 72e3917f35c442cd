package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// private is the engine that the tests share.
var private dockertest.Shared

// asProgram makes the test binary be healthd.
const asProgram = "HEALTHD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	time.Local = time.UTC
	os.Exit(private.Main(m))
}

// program returns a command that runs healthd.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.WaitDelay = patience.Limit
	return cmd
}

// result is what a command line came to.
type result struct {
	code           int
	stdout, stderr string
}

// healthd runs the program to its end.
func healthd(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := program(t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// inside runs a command line in this process.
func inside(args ...string) result { return insideTerminal(0, args...) }

// insideTerminal is inside on a terminal of that width; 0: on none.
func insideTerminal(columns int, args ...string) result {
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr, size: func() (int, int, bool) { return columns, 24, columns > 0 }}
	code := a.execute(args)
	return result{code, stdout.String(), stderr.String()}
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}
