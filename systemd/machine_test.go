package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"

	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

// docker is what a host with Docker, HAProxy and what docs/first-hour.md uses has beside systemd.
var docker = []string{"docker.io", "containerd", "runc", "iptables", "haproxy", "iproute2", "socat", "curl", "sudo"}

// shared are directories that tests share, by what is in them; each made by the first that wants it.
var shared = struct {
	sync.Mutex
	dirs map[string]string
}{dirs: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range shared.dirs {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// once returns the directory that fill has filled, which is for reading.
func once(t *testing.T, name string, fill func(dir string)) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if dir := shared.dirs[name]; dir != "" {
		return dir
	}
	dir := temporary(t)
	filled := false
	defer func() {
		if !filled {
			_ = os.RemoveAll(dir)
		}
	}()
	fill(dir)
	filled, shared.dirs[name] = true, dir
	return dir
}

// importDebian gives the engine an image of a small Debian with systemd and these packages. Its root is kept in bin/roots.
func importDebian(t *testing.T, e *dockertest.Engine, suite, kind string, packages ...string) (name string) {
	t.Helper()
	root := filepath.Join("..", "bin", "roots", suite+"-"+kind)
	run(t, "../scripts/debian-root", append([]string{suite, root, "systemd", "systemd-sysv", "dbus"}, packages...)...)
	name = "healthd-" + kind + ":" + suite
	importRoot(t, e, root, name)
	return name
}

func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "healthd-root")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// importRoot makes an image of this name of a directory.
func importRoot(t *testing.T, e *dockertest.Engine, root, name string) {
	t.Helper()
	err := packed(t, root, func(files io.Reader) error {
		answer, err := e.Client().ImageImport(t.Context(), image.ImportSource{Source: files, SourceName: "-"}, name, image.ImportOptions{})
		if err != nil {
			return err
		}
		defer answer.Close()
		_, err = io.Copy(io.Discard, answer)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// packed has use read the files of a directory, as a tar.
func packed(t *testing.T, dir string, use func(io.Reader) error) error {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "tar", "-C", dir, "-c", ".")
	r, err := pack.StdoutPipe()
	if err == nil {
		err = pack.Start()
	}
	if err != nil {
		return err
	}
	if err := use(r); err != nil {
		return err
	}
	if err := pack.Wait(); err != nil {
		return fmt.Errorf("cannot pack %s: %w", dir, err)
	}
	return nil
}

// machine is a running Debian.
type machine struct {
	t  *testing.T
	e  *dockertest.Engine
	id string
}

// boot starts systemd as process 1 of a container that sees the engine it is on.
func boot(t *testing.T, e *dockertest.Engine, image, files string) *machine {
	t.Helper()
	socket := strings.TrimPrefix(e.Endpoint, "unix://")
	return bootImage(t, e, image, "machine", files, func(c *container.HostConfig) {
		c.NetworkMode = "host"
		c.Binds = append(c.Binds, socket+":/engine/d.sock")
	})
}

// bootAlone is boot for a machine with an engine of its own, and no network but that one's.
func bootAlone(t *testing.T, e *dockertest.Engine, image, name, files string) *machine {
	t.Helper()
	return bootImage(t, e, image, name, files, func(c *container.HostConfig) {
		c.NetworkMode = "none"
		c.ExtraHosts = []string{name + ":127.0.1.1"}
		c.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "1024"} // as on a host
		c.MaskedPaths, c.ReadonlyPaths = []string{}, []string{}                      // its engine sets up networks by /proc/sys
		for _, dir := range []string{"/var/lib/docker", "/var/lib/containerd"} {
			c.Mounts = append(c.Mounts, mount.Mount{Type: mount.TypeVolume, Target: dir}) // overlayfs does not stack on itself
		}
	})
}

// bootImage starts a machine that has the files of a directory beside those of its image.
func bootImage(t *testing.T, e *dockertest.Engine, image, name, files string, change func(*container.HostConfig)) *machine {
	t.Helper()
	ctx := t.Context()
	host := &container.HostConfig{
		CapAdd:       capabilities(t),
		SecurityOpt:  []string{"seccomp=unconfined", "apparmor=unconfined"},
		CgroupnsMode: "host",
		Binds:        []string{"/sys/fs/cgroup:/sys/fs/cgroup:rw"},
		Tmpfs:        map[string]string{"/run": "", "/run/lock": "", "/tmp": ""},
	}
	change(host)
	created, err := e.Client().ContainerCreate(ctx, &container.Config{
		Hostname: name, Image: image, Cmd: []string{"/sbin/init"}, Env: []string{"container=docker"}, StopSignal: "RTMIN+3",
	}, host, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Remove(t, created.ID) })
	unpack := func(files io.Reader) error {
		return e.Client().CopyToContainer(ctx, created.ID, "/", files, container.CopyToContainerOptions{})
	}
	if err := packed(t, files, unpack); err != nil {
		t.Fatal(err)
	}
	m := &machine{t, e, created.ID}
	m.start()
	return m
}

// start starts the machine, and waits until its boot is over.
func (m *machine) start() {
	m.t.Helper()
	if err := m.e.Client().ContainerStart(m.t.Context(), m.id, container.StartOptions{}); err != nil {
		m.t.Fatal(err)
	}
	m.await("systemd", func() error {
		out, code := m.run("systemctl", "is-system-running")
		if state := strings.TrimSpace(out); state != "running" && state != "degraded" {
			return fmt.Errorf("%q, exit code %d", state, code)
		}
		return nil
	})
}

// reboot stops the machine in order, and starts it again.
func (m *machine) reboot() {
	m.t.Helper()
	limit := int(patience.Limit.Seconds())
	if err := m.e.Client().ContainerStop(m.t.Context(), m.id, container.StopOptions{Timeout: &limit}); err != nil {
		m.t.Fatal(err)
	}
	m.start()
}

// in is the machine for a subtest, which fails for it.
func (m *machine) in(t *testing.T) *machine { return &machine{t, m.e, m.id} }

// sh runs lines of shell, which have to succeed.
func (m *machine) sh(lines string) string {
	m.t.Helper()
	return m.must("sh", "-ec", lines)
}

// file writes a file and makes its directory.
func (m *machine) file(path, text string) {
	m.t.Helper()
	m.must("sh", "-ec", `mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"`, "sh", path, text)
}

// capabilities are those that systemd likes and this host can give.
func capabilities(t *testing.T) []string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "CapBnd:")
	var bounding uint64
	if _, err := fmt.Sscanf(line, "%x", &bounding); err != nil {
		t.Fatalf("cannot read the capabilities of this host: %v", err)
	}
	var names []string
	for name, bit := range map[string]int{
		"SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_RESOURCE": unix.CAP_SYS_RESOURCE,
		"NET_ADMIN": unix.CAP_NET_ADMIN, "SYS_PTRACE": unix.CAP_SYS_PTRACE,
	} {
		if bounding&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (m *machine) await(what string, try func() error) {
	m.t.Helper()
	err := patience.Try(what, func() error {
		err := try()
		if err != nil {
			time.Sleep(100 * time.Millisecond) // each look costs a process or two
		}
		return err
	})
	if err != nil {
		log, _ := m.run("journalctl", "-u", unit, "--no-pager", "-n", "50")
		m.t.Fatalf("%v\n%s", err, log)
	}
}

// must runs a command on the machine, which has to succeed.
func (m *machine) must(argv ...string) string {
	m.t.Helper()
	out, code := m.run(argv...)
	if code != 0 {
		log, _ := m.run("journalctl", "-u", unit, "--no-pager", "-n", "50")
		m.t.Fatalf("%v: exit code %d\n%s\n%s", argv, code, out, log)
	}
	return out
}

func (m *machine) run(argv ...string) (output string, code int) {
	m.t.Helper()
	ctx, c := m.t.Context(), m.e.Client()
	created, err := c.ContainerExecCreate(ctx, m.id, container.ExecOptions{
		Cmd: argv, AttachStdout: true, AttachStderr: true,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	attached, err := c.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	defer attached.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, attached.Reader); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		m.t.Fatal(err)
	}
	for {
		i, err := c.ContainerExecInspect(ctx, created.ID)
		if err != nil {
			m.t.Fatal(err)
		}
		if !i.Running {
			return out.String(), i.ExitCode
		}
	}
}
