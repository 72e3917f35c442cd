// Package containerdtest runs private containerds for tests, with their own socket, root and
// state, and an image that needs no registry. What nerdctl does besides, they do as well: its
// labels, and its hooks for a bridge.
//
//	e := containerdtest.Start(t)                        one engine for a test
//	var s containerdtest.Shared; s.Main(m); s.Engine(t) one engine for all tests of a package
//	id := e.Run(t, containerdtest.RunOptions{…})        a container of the test image, with nerdctl's labels
//	e.Kill(t); e.Up(t); e.Freeze(t); e.Thaw(t)          faults of the engine
//
// It needs root and the distribution's packages. Without them a test fails; it is not skipped.
package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"healthd/e2e/patience"
	"healthd/runtime/enginetest"
)

const (
	// Image is the name of the image that every engine has: busybox with all its applets in
	// /bin, and /bin/testserver, which is also what it runs by default.
	Image = "docker.io/library/healthd-test:1"

	// Namespace is where containers are made that name no other.
	Namespace = "default"

	dirPrefix    = "hct"
	startTimeout = patience.Limit
	stopTimeout  = patience.Limit
	install      = "apt-get install -y --no-install-recommends containerd runc busybox-static iproute2"
)

// Engine is one private containerd.
type Engine struct {
	// Endpoint is where it listens: "unix:///…".
	Endpoint string

	dir     string
	root    *enginetest.Root
	network enginetest.Network
	nerdctl string // the directory of nerdctl's data
	daemon  *enginetest.Process
	client  *client.Client
}

// Start starts an engine that is stopped and removed when the test ends.
func Start(tb testing.TB) *Engine {
	tb.Helper()
	e, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// Shared is an engine that the tests of one binary share. It starts with the first call of
// Engine.
type Shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Main runs the tests and then stops the engine, if one was started. It returns what TestMain
// should exit with.
func (s *Shared) Main(m *testing.M) int { return max(m.Run(), s.Close()) }

// Close stops the engine, if one was started. It returns 0, or 1 when that fails.
func (s *Shared) Close() int {
	if s.engine == nil {
		return 0
	}
	if err := s.engine.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Engine returns the shared engine, which the first call starts.
func (s *Shared) Engine(tb testing.TB) *Engine {
	tb.Helper()
	s.once.Do(func() { s.engine, s.err = start() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.engine
}

// Client returns a client of the engine. The caller must not close it.
func (e *Engine) Client() *client.Client { return e.client }

// Path returns a path in the engine's directory, which goes with the engine.
func (e *Engine) Path(elem ...string) string {
	return filepath.Join(append([]string{e.dir}, elem...)...)
}

// Stop ends containerd with SIGTERM. Its containers run on.
func (e *Engine) Stop(tb testing.TB) { tb.Helper(); e.end(tb, syscall.SIGTERM) }

// Kill ends containerd with SIGKILL. Its containers run on.
func (e *Engine) Kill(tb testing.TB) { tb.Helper(); e.end(tb, syscall.SIGKILL) }

func (e *Engine) end(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := e.daemon.Stop(sig, stopTimeout); err != nil {
		tb.Fatal(err)
	}
}

// Up starts containerd again after Stop or Kill and waits until it answers.
func (e *Engine) Up(tb testing.TB) {
	tb.Helper()
	if err := e.startDaemon(); err != nil {
		tb.Fatal(err)
	}
}

// Freeze stops containerd with SIGSTOP until Thaw: it accepts connections and does not answer.
func (e *Engine) Freeze(tb testing.TB) {
	tb.Helper()
	if err := e.daemon.Freeze(); err != nil {
		tb.Fatal(err)
	}
}

// Thaw undoes Freeze.
func (e *Engine) Thaw(tb testing.TB) {
	tb.Helper()
	if err := e.daemon.Signal(syscall.SIGCONT); err != nil {
		tb.Fatal(err)
	}
}

func start() (_ *Engine, err error) {
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc", "ip", "nsenter", "busybox"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("cannot start a private containerd: %w; install it: %s", err, install)
		}
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("cannot start a private containerd: not root")
	}
	enginetest.CleanUpAbandoned(dirPrefix, cleanUp)
	if err := enginetest.MountCgroups(); err != nil {
		return nil, err
	}
	// Not tb.TempDir: a Unix socket's path has 107 bytes at most.
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	e := &Engine{Endpoint: "unix://" + filepath.Join(dir, "c.sock"), dir: dir}
	defer func() {
		if err != nil {
			_ = e.close()
		}
	}()
	if err := e.claim(); err != nil {
		return nil, err
	}
	if e.root, err = enginetest.OpenRoot(dir); err != nil {
		return nil, err
	}
	go func() { _, _ = enginetest.ImageLayer() }() // while the engine starts
	if err := e.startDaemon(); err != nil {
		return nil, err
	}
	return e, e.importImage()
}

func (e *Engine) startDaemon() error {
	conf := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = %q
[plugins."io.containerd.internal.v1.opt"]
path = %q
[plugins."io.containerd.internal.v1.restart"]
interval = "1s"
`, e.Path("root"), e.Path("state"), e.Path("c.sock"), e.Path("opt"))
	file := e.Path("containerd.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	if e.client == nil {
		const soon = 100 * time.Millisecond
		c, err := client.New(e.Path("c.sock"), client.WithDefaultNamespace(Namespace), client.WithExtraDialOpts([]grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: soon, MaxDelay: soon}, MinConnectTimeout: stopTimeout}),
		}))
		if err != nil {
			return err
		}
		e.client = c
	}
	e.daemon = enginetest.NewProcess("containerd", e.Path("containerd.log"), e.root.Command("containerd", "-c", file)...)
	if err := e.daemon.Start(); err != nil {
		return err
	}
	return e.daemon.WaitReady(startTimeout, func(ctx context.Context) error {
		_, err := e.client.Version(ctx)
		return err
	})
}

// close ends all processes and cleans up.
func (e *Engine) close() error {
	if e.client != nil {
		_ = e.client.Close()
	}
	if e.daemon != nil && e.daemon.Running() {
		_ = e.daemon.Stop(syscall.SIGTERM, stopTimeout)
	}
	e.root.Close()
	return cleanUp(e.dir)
}
