package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

	"healthd/runtime/docker/dockertest"
)

const systemImage = "healthd-systemd:1"

// fresh is what all tests copy their Debian from, by the packages it has beside systemd; each made by
// the first that wants one.
var fresh = struct {
	sync.Mutex
	roots map[string]string
}{roots: map[string]string{}}

// cleanUp are directories that tests share.
var cleanUp []string

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range cleanUp {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// debian returns the directory of a small Debian (or Ubuntu, on Ubuntu) with systemd and these
// packages, which is the test's own.
func debian(t *testing.T, packages ...string) string {
	t.Helper()
	fresh.Lock()
	defer fresh.Unlock()
	include := strings.Join(append([]string{"systemd", "systemd-sysv", "dbus"}, packages...), ",")
	if fresh.roots[include] == "" {
		suite := run(t, "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
		root := temporary(t)
		defer func() {
			if fresh.roots[include] == "" {
				_ = os.RemoveAll(root)
			}
		}()
		run(t, "debootstrap", "--variant=minbase", "--include="+include, strings.TrimSpace(suite), root)
		fresh.roots[include], cleanUp = root, append(cleanUp, root)
	}
	root := temporary(t)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	run(t, "cp", "-a", fresh.roots[include]+"/.", root)
	return root
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// importRoot makes an image of this name of a directory.
func importRoot(t *testing.T, e *dockertest.Engine, root, name string) {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "tar", "-C", root, "-c", ".")
	r, err := pack.StdoutPipe()
	if err == nil {
		err = pack.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := e.Client().ImageImport(t.Context(), image.ImportSource{Source: r, SourceName: "-"}, name, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatal(err)
	}
	if err := pack.Wait(); err != nil {
		t.Fatalf("cannot pack %s: %v", root, err)
	}
}

// machine is a running Debian.
type machine struct {
	t  *testing.T
	e  *dockertest.Engine
	id string
}

// boot starts systemd as process 1 of a container that sees the engine it is on.
func boot(t *testing.T, e *dockertest.Engine) *machine {
	t.Helper()
	socket := strings.TrimPrefix(e.Endpoint, "unix://")
	return bootImage(t, e, systemImage, "machine", func(c *container.HostConfig) {
		c.NetworkMode = "host"
		c.Binds = append(c.Binds, socket+":/engine/d.sock")
	})
}

// bootAlone is boot for a machine of another image and name, with an engine of its own, and no network
// but that one's.
func bootAlone(t *testing.T, e *dockertest.Engine, image, name string) *machine {
	t.Helper()
	return bootImage(t, e, image, name, func(c *container.HostConfig) {
		c.NetworkMode = "none"
		c.ExtraHosts = []string{name + ":127.0.1.1"}
		c.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "1024"} // as on a host
		c.MaskedPaths, c.ReadonlyPaths = []string{}, []string{}                      // its engine sets up networks by /proc/sys
		for _, dir := range []string{"/var/lib/docker", "/var/lib/containerd"} {
			c.Mounts = append(c.Mounts, mount.Mount{Type: mount.TypeVolume, Target: dir}) // overlayfs does not stack on itself
		}
	})
}

func bootImage(t *testing.T, e *dockertest.Engine, image, name string, change func(*container.HostConfig)) *machine {
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
	patience := 30
	if err := m.e.Client().ContainerStop(m.t.Context(), m.id, container.StopOptions{Timeout: &patience}); err != nil {
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
	end := time.Now().Add(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			log, _ := m.run("journalctl", "-u", unit, "--no-pager", "-n", "50")
			m.t.Fatalf("no %s within a minute: %v\n%s", what, err, log)
		}
		<-tick.C
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
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	c := m.e.Client()
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
