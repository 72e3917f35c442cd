// Package dockertest runs private Docker engines for tests: a containerd and a dockerd with
// their own sockets, data directory and bridge, and an image that needs no registry.
//
//	e := dockertest.Start(t)                        one engine for a test
//	var s dockertest.Shared; s.Main(m); s.Engine(t) one engine for all tests of a package
//	id := e.Run(t, dockertest.RunOptions{…})        a container of the test image
//	e.Kill(t); e.Up(t); e.Freeze(t); e.Thaw(t)      faults of the engine
//
// It needs root and the distribution's packages. Without them a test fails; it is not
// skipped.
package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"healthd/e2e/patience"
	"healthd/runtime/enginetest"
)

const (
	// Image is the name of the image that every engine has: busybox with all its
	// applets in /bin, and /bin/testserver, which is also what it runs by default.
	Image = "healthd-test:1"

	dirPrefix    = "hdt"
	startTimeout = patience.Limit
	stopTimeout  = patience.Limit
	install      = "apt-get install -y --no-install-recommends docker.io busybox-static iproute2"
)

// Engine is one private engine.
type Engine struct {
	// Endpoint is where it listens: "unix:///…".
	Endpoint string
	// Image is the name of the image that it has.
	Image string
	// Bridge is the network of containers that name none.
	Bridge string

	flags      []string
	netns      string // empty: the host's own
	dir        string
	network    enginetest.Network
	root       *enginetest.Root
	containerd *enginetest.Process
	daemon     *enginetest.Process
	client     *client.Client
}

// Start starts an engine that is stopped and removed when the test ends. The flags of
// dockerd come after those that every engine has, such as --live-restore.
func Start(tb testing.TB, flags ...string) *Engine {
	tb.Helper()
	return started(tb, "", flags)
}

// StartIn is Start for an engine in the network namespace of that name (ip netns), as on a host of its own: it makes
// its bridge there, and publishes ports.
func StartIn(tb testing.TB, netns string, flags ...string) *Engine {
	tb.Helper()
	return started(tb, netns, flags)
}

func started(tb testing.TB, netns string, flags []string) *Engine {
	tb.Helper()
	e, err := start(netns, flags...)
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

// Shared is an engine that the tests of one binary share. It starts with the
// first call of Engine.
type Shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Main runs the tests and then stops the engine, if one was started. It returns
// what TestMain should exit with.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.engine == nil {
		return code
	}
	if err := s.engine.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Engine returns the shared engine, which the first call starts.
func (s *Shared) Engine(tb testing.TB) *Engine {
	tb.Helper()
	s.once.Do(func() { s.engine, s.err = start("") })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.engine
}

// Client returns a client of the engine. The caller must not close it.
func (e *Engine) Client() *client.Client { return e.client }

// Stop ends dockerd with SIGTERM. With live-restore, the default, its containers run on.
func (e *Engine) Stop(tb testing.TB) {
	tb.Helper()
	if err := e.daemon.Stop(syscall.SIGTERM, stopTimeout); err != nil {
		tb.Fatal(err)
	}
}

// Kill ends dockerd with SIGKILL. Its containers run on.
func (e *Engine) Kill(tb testing.TB) {
	tb.Helper()
	if err := e.daemon.Stop(syscall.SIGKILL, stopTimeout); err != nil {
		tb.Fatal(err)
	}
}

// Up starts dockerd again after Stop or Kill and waits until it answers.
func (e *Engine) Up(tb testing.TB) {
	tb.Helper()
	if err := e.startDaemon(); err != nil {
		tb.Fatal(err)
	}
}

// Freeze stops dockerd with SIGSTOP until Thaw: it accepts connections and does not answer.
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

func start(netns string, flags ...string) (_ *Engine, err error) {
	for _, name := range []string{"containerd", "dockerd", "runc", "ip", "busybox"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("cannot start a private engine: %w; install it: %s", err, install)
		}
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("cannot start a private engine: not root")
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
	e := &Engine{Endpoint: "unix://" + filepath.Join(dir, "d.sock"), Image: Image, Bridge: "bridge", flags: flags, netns: netns, dir: dir}
	if usePodman {
		e.Bridge = "podman"
	}
	defer func() {
		if err != nil {
			_ = e.close()
		}
	}()
	if err := e.claim(); err != nil {
		return nil, err
	}
	e.client, err = client.NewClientWithOpts(client.WithHost(e.Endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	if e.root, err = enginetest.OpenRoot(dir); err != nil {
		return nil, err
	}
	go func() { _, _ = enginetest.ImageLayer() }() // while the engine starts
	if err := e.startDaemons(); err != nil {
		return nil, err
	}
	return e, e.importImage()
}

func (e *Engine) startDaemons() error {
	if usePodman {
		return e.startDaemon()
	}
	if err := e.startContainerd(); err != nil {
		return err
	}
	return e.startDaemon()
}

// claim takes a network and writes who owns the directory, for cleanUp.
func (e *Engine) claim() error {
	if e.netns != "" {
		return enginetest.Claim(e.dir)
	}
	n, err := enginetest.ClaimNetwork()
	if err != nil {
		return err
	}
	e.network = n
	return enginetest.Claim(e.dir, n.Bridge)
}

func (e *Engine) startContainerd() error {
	conf := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = %q
[plugins."io.containerd.internal.v1.opt"]
path = %q
`, e.path("c", "root"), e.path("c", "state"), e.path("c.sock"), e.path("c", "opt"))
	file := e.path("containerd.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	e.containerd = enginetest.NewProcess("containerd", e.path("containerd.log"), e.Command("containerd", "-c", file)...)
	if err := e.containerd.Start(); err != nil {
		return err
	}
	return e.containerd.WaitReady(startTimeout, func(context.Context) error {
		_, err := os.Stat(e.path("c.sock"))
		return err
	})
}

// startDaemon starts what listens on the endpoint.
func (e *Engine) startDaemon() (err error) {
	if usePodman {
		e.daemon, err = e.podman()
	} else {
		e.daemon, err = e.dockerd()
	}
	if err != nil {
		return err
	}
	if err := e.daemon.Start(); err != nil {
		return err
	}
	return e.daemon.WaitReady(startTimeout, func(ctx context.Context) error {
		_, err := e.client.Info(ctx)
		return err
	})
}

func (e *Engine) dockerd() (*enginetest.Process, error) {
	// With the PID file of a dockerd that was killed, the next one would not start.
	_ = os.Remove(e.path("d.pid"))
	if err := os.WriteFile(e.path("daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return nil, err
	}
	network := []string{"--bridge", e.network.Bridge, "--default-address-pool", e.network.Pool(), "--userland-proxy=false"}
	if e.netns != "" {
		network = nil
	}
	argv := slices.Concat([]string{"dockerd",
		"--containerd", e.path("c.sock"), "--host", e.Endpoint, "--pidfile", e.path("d.pid"),
		"--config-file", e.path("daemon.json"), "--data-root", e.path("data"), "--exec-root", e.path("exec"),
		"--cgroup-parent", e.cgroup(), "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--live-restore", "--iptables=false", "--ip-forward=false", "--ip-masq=false"}, network, e.flags)
	return enginetest.NewProcess("dockerd", e.path("dockerd.log"), e.Command(argv...)...), nil
}

// Command returns the arguments that run a program where the engine is.
func (e *Engine) Command(argv ...string) []string {
	if e.netns != "" {
		argv = append([]string{"nsenter", "--net=/run/netns/" + e.netns, "--"}, argv...)
	}
	return e.root.Command(argv...)
}

// close removes the containers, ends all processes and cleans up.
func (e *Engine) close() error {
	if e.daemon != nil && e.daemon.Running() {
		e.removeContainers()
		_ = e.daemon.Stop(syscall.SIGTERM, stopTimeout)
	}
	if e.containerd != nil && e.containerd.Running() {
		_ = e.containerd.Stop(syscall.SIGTERM, stopTimeout)
	}
	e.root.Close()
	if e.client != nil {
		_ = e.client.Close()
	}
	return cleanUp(e.dir)
}

func (e *Engine) removeContainers() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, c := range list {
		wg.Go(func() { _ = e.client.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}) })
	}
}

func (e *Engine) path(elem ...string) string {
	return filepath.Join(append([]string{e.dir}, elem...)...)
}

func (e *Engine) cgroup() string { return "/" + filepath.Base(e.dir) }

// cleanUp kills every process of the engine in dir, and removes all that it has made.
func cleanUp(dir string) error {
	bridges := enginetest.Claimed(dir)
	err := enginetest.CleanUp(dir)
	for _, bridge := range bridges {
		err = errors.Join(err, enginetest.RemoveBridge(bridge))
	}
	return err
}
