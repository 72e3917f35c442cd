// Command demo shows healthd at work on a private Docker engine: three web replicas,
// a slow starter, and one container that hangs after 20 seconds and is withdrawn,
// restarted and ready again, before them an HAProxy that healthd tells about it. It
// removes all it started, also after Ctrl-C. With DEMO_SECONDS=N it runs for N seconds
// unattended and fails when the hung container was not healed, when HAProxy did not
// take it out and in again, or when a request through HAProxy failed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"healthd/runtime/docker/dockertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Getenv("DEMO_SECONDS")); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seconds string) (err error) {
	var length time.Duration
	if seconds != "" {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 1 {
			return fmt.Errorf("cannot run for DEMO_SECONDS=%s: not a number of seconds", seconds)
		}
		length = time.Duration(n) * time.Second
	}
	dir, err := os.MkdirTemp("", "healthd-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Println("Building healthd …")
	program := filepath.Join(dir, "healthd")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "healthd/cmd/healthd")
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // so that go cleans up
	if out, err := build.CombinedOutput(); err != nil {
		return quiet(ctx, fmt.Errorf("cannot build healthd: %w\n%s", err, out))
	}
	fmt.Println("Starting a private Docker engine with an image of its own (nothing on this machine's engine is touched) …")
	engine, err := dockertest.Open()
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("Removing the containers and the engine …")
		if closeErr := engine.Close(); err == nil {
			err = closeErr
		}
	}()
	if ctx.Err() != nil {
		return nil
	}
	show, err := newShow(dir, program, engine)
	if err != nil {
		return err
	}
	return show.play(ctx, length)
}

// quiet makes an end that somebody asked for no error.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
