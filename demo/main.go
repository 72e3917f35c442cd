// Command demo shows healthd at work on a private Docker engine, or with -runtime containerd on
// a private containerd: three web replicas, a slow starter, a container that hangs 20 seconds
// after each start, and HAProxy, to which healthd pushes readiness. healthd withdraws and restarts the hung container until it is
// ready again, and at the end prints what healthd recorded of it. The demo removes all that it started, also after Ctrl-C. With
// DEMO_SECONDS=N it runs for N seconds unattended, and fails if healthd did not heal the
// hung container, if HAProxy did not take it out and in again, or if a request failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
)

// engine is a private engine.
type engine interface {
	Runtime() string // the [[runtime]] of healthd's configuration
	Serve(ctx context.Context, name string, labels map[string]string, args ...string) error
	Close() error
}

// engines are the private engines by runtime.
var engines = map[string]struct {
	title string
	open  func() (engine, error)
}{
	"docker":     {"Docker engine", func() (engine, error) { return dockertest.Open() }},
	"containerd": {"containerd", func() (engine, error) { return containerdtest.Open() }},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	name := flag.String("runtime", "docker", "what runs the containers: docker or containerd")
	flag.Parse()
	if err := run(ctx, *name, os.Getenv("DEMO_SECONDS")); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, runtime, seconds string) (err error) {
	private, ok := engines[runtime]
	if !ok {
		return fmt.Errorf("cannot run on %q: it must be docker or containerd", runtime)
	}
	var length time.Duration
	if seconds != "" {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 1 {
			return fmt.Errorf("cannot run for DEMO_SECONDS=%s: it must be a whole number of seconds, at least 1", seconds)
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
		return unlessCancelled(ctx, fmt.Errorf("cannot build healthd: %w\n%s", err, out))
	}
	fmt.Printf("Starting a private %s (the demo does not touch this machine's own) …\n", private.title)
	engine, err := private.open()
	if err != nil {
		return unlessCancelled(ctx, err)
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
	show, err := newDemo(dir, program, engine)
	if err != nil {
		return err
	}
	return show.run(ctx, length)
}

// unlessCancelled drops the error of an end that the user asked for.
func unlessCancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
