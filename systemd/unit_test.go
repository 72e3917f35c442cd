// Package systemd has no code: these tests install healthd as `make install` does
// into a Debian with a real systemd, which runs as process 1 of a container on a
// private engine, and use the unit as an administrator would.
package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"

	"healthd/runtime/docker/dockertest"
)

const (
	systemImage = "healthd-systemd:1"
	unit        = "healthd.service"
)

const webSpec = `[[spec]]
name = "web"
match = { unit = "web" }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
`

func TestUnit(t *testing.T) {
	root := debian(t)
	makeInstall(t, root)
	verify(t, root)
	e := dockertest.Start(t)
	write(t, filepath.Join(root, "etc/default/healthd"), "DOCKER_HOST=unix:///engine/d.sock\n")
	write(t, filepath.Join(root, "etc/healthd/conf.d/web.toml"), webSpec)
	importRoot(t, e, root)
	m := boot(t, e)
	e.Run(t, dockertest.RunOptions{Name: "web-1", Labels: map[string]string{"unit": "web"}, Network: "host"})

	m.must("systemctl", "start", "healthd") // returns at READY
	if out := m.must("healthd", "status"); !strings.Contains(out, "web-1") {
		t.Errorf("status right after the start does not know web-1:\n%s", out)
	}
	m.await("the counts in STATUS", func() error {
		return contains(m.must("systemctl", "show", "-p", "StatusText", unit), "1 container, 1 ready")
	})
	if out := m.must("systemctl", "show", "-p", "Type", "-p", "WatchdogUSec", "-p", "Restart", "-p", "NRestarts", unit); contains(out, "Type=notify") != nil ||
		contains(out, "WatchdogUSec=30s") != nil || contains(out, "Restart=always") != nil || contains(out, "NRestarts=0") != nil {
		t.Errorf("the unit is not as it should be:\n%s", out)
	}

	m.reload()
	m.must("test", "-s", "/var/lib/healthd/journal.db")
	m.must("systemctl", "kill", "--signal=KILL", unit)
	m.await("a restart after kill -9", func() error {
		if err := contains(m.must("systemctl", "show", "-p", "NRestarts", "-p", "ActiveState", unit), "NRestarts=1"); err != nil {
			return err
		}
		return contains(m.must("systemctl", "show", "-p", "ActiveState", unit), "ActiveState=active")
	})
	m.hang()
	m.must("systemctl", "stop", "healthd")
	if out := m.must("systemctl", "show", "-p", "Result", "-p", "ActiveState", "-p", "ExecMainStatus", unit); contains(out, "Result=success") != nil || contains(out, "ActiveState=inactive") != nil || contains(out, "ExecMainStatus=0") != nil {
		t.Errorf("the stop was not clean:\n%s\n%s", out, m.must("journalctl", "-u", unit, "--no-pager"))
	}
	if out := m.must("journalctl", "-u", unit, "-p", "warning", "-o", "cat", "--no-pager"); strings.Contains(out, "<4>") {
		t.Errorf("the journal does not understand the levels:\n%s", out)
	}
}

// reload changes the configuration twice, the second time for the worse, and reloads.
func (m *machine) reload() {
	m.t.Helper()
	const conf = "/etc/healthd/conf.d/zz-later.toml"
	m.must("sh", "-c", "printf '[[spec]]\\nname = \"later\"\\nmatch = { a = \"b\" }\\n[spec.readiness]\\ntcp_socket = { port = 80 }\\n' > "+conf)
	m.must("systemctl", "reload", "healthd")
	m.await("the new spec in the log", func() error {
		return contains(m.must("journalctl", "-u", unit, "-o", "cat", "--no-pager"), `"specs": ["web", "later"]`)
	})
	m.must("sh", "-c", "echo wrong = 1 >> "+conf)
	m.must("sh", "-c", "! systemctl reload healthd")
	m.await("the problem in STATUS", func() error {
		return contains(m.must("systemctl", "show", "-p", "StatusText", "-p", "ActiveState", unit), "not reloaded: 1 problem")
	})
	m.must("rm", conf)
	m.must("systemctl", "reload", "healthd")
	m.await("a good STATUS", func() error {
		if out := m.must("systemctl", "show", "-p", "StatusText", unit); strings.Contains(out, "not reloaded") {
			return errors.New(out)
		}
		return contains(m.must("systemctl", "show", "-p", "ActiveState", "-p", "NRestarts", unit), "ActiveState=active")
	})
}

// hang keeps the daemon from running, with a short watchdog, and waits until systemd
// has noticed and started it again.
func (m *machine) hang() {
	m.t.Helper()
	m.must("sh", "-c", "mkdir -p /run/systemd/system/healthd.service.d && printf '[Service]\\nWatchdogSec=2s\\n' > /run/systemd/system/healthd.service.d/short.conf")
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "restart", "healthd")
	m.must("systemctl", "kill", "--signal=STOP", unit)
	m.await("a restart by the watchdog", func() error {
		if err := contains(m.must("journalctl", "-u", unit, "--no-pager"), "Watchdog timeout"); err != nil {
			return err
		}
		return contains(m.must("systemctl", "show", "-p", "ActiveState", "-p", "NRestarts", unit), "ActiveState=active")
	})
}

func contains(text, want string) error {
	if !strings.Contains(text, want) {
		return fmt.Errorf("no %q in %q", want, text)
	}
	return nil
}

// debian makes a small Debian (or Ubuntu, on Ubuntu) with systemd.
func debian(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "healthd-root")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	suite := run(t, "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
	run(t, "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", strings.TrimSpace(suite), root)
	return root
}

func makeInstall(t *testing.T, root string) {
	t.Helper()
	run(t, "make", "-C", "..", "install", "DESTDIR="+root)
	for path, mode := range map[string]fs.FileMode{
		"usr/local/bin/healthd":                            0o755,
		"usr/local/lib/systemd/system/healthd.service":     0o644,
		"etc/healthd/healthd.toml":                         0o644,
		"usr/local/share/doc/healthd/README.md":            0o644,
		"usr/local/share/doc/healthd/LICENSE":              0o644,
		"usr/local/share/doc/healthd/docs/semantics.md":    0o644,
		"usr/local/share/doc/healthd/examples/10-web.toml": 0o644,
	} {
		if i, err := os.Stat(filepath.Join(root, path)); err != nil || i.Mode().Perm() != mode {
			t.Errorf("make install: %s: %v, %v", path, i, err)
		}
	}
}

// verify lets systemd itself read the unit.
func verify(t *testing.T, root string) {
	t.Helper()
	out := run(t, "systemd-analyze", "verify", "--man=no", "--root="+root, unit)
	if strings.Contains(out, unit) {
		t.Errorf("systemd-analyze says: %s", out)
	}
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

// importRoot makes an image of a directory.
func importRoot(t *testing.T, e *dockertest.Engine, root string) {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "tar", "-C", root, "-c", ".")
	r, err := pack.StdoutPipe()
	if err == nil {
		err = pack.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := e.Client().ImageImport(t.Context(), image.ImportSource{Source: r, SourceName: "-"}, systemImage, image.ImportOptions{})
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
	ctx := t.Context()
	socket := strings.TrimPrefix(e.Endpoint, "unix://")
	created, err := e.Client().ContainerCreate(ctx, &container.Config{
		Image: systemImage, Cmd: []string{"/sbin/init"}, Env: []string{"container=docker"}, StopSignal: "RTMIN+3",
	}, &container.HostConfig{
		NetworkMode:  "host",
		CapAdd:       capabilities(t),
		SecurityOpt:  []string{"seccomp=unconfined", "apparmor=unconfined"},
		CgroupnsMode: "host",
		Binds:        []string{"/sys/fs/cgroup:/sys/fs/cgroup:rw", socket + ":/engine/d.sock"},
		Tmpfs:        map[string]string{"/run": "", "/run/lock": "", "/tmp": ""},
	}, nil, nil, "machine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Remove(t, created.ID) })
	if err := e.Client().ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	m := &machine{t, e, created.ID}
	m.await("systemd", func() error {
		out, code := m.run("systemctl", "is-system-running")
		if state := strings.TrimSpace(out); state != "running" && state != "degraded" {
			return fmt.Errorf("%q, exit code %d", state, code)
		}
		return nil
	})
	return m
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
