// Package systemd has no code: these tests install healthd as `make install` does
// into a Debian with a real systemd, Docker, containerd and HAProxy, which runs as a
// container on a private engine, and use the unit as an administrator would.
package systemd

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"healthd/runtime/docker/dockertest"
)

const unit = "healthd.service"

// TestUnit is all that one boot of a host shows, in order: each step leaves healthd running.
func TestUnit(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-systemd runs it")
	}
	t.Parallel()
	e := dockertest.Start(t)
	files := t.TempDir()
	run(t, "cp", "-a", installed(t)+"/.", files)
	equip(t, e, files)
	m := bootAlone(t, e, importDebian(t, e, "bookworm", "docker", docker...), "machine", files)
	m.sh("docker load -qi /opt/image.tar")
	for _, step := range []struct {
		name string
		run  func(*machine)
	}{
		{"the drop-ins and the unit are valid, and expose little", (*machine).exposure},
		{"start", (*machine).first},
		{"reload", (*machine).reload},
		{"kill -9", (*machine).kill},
		{"hang", (*machine).hang},
		{"stop during a drain", (*machine).stopDuringDrain},
		{"upgrade during a back-off", (*machine).upgrade},
		{"no engine", (*machine).withoutEngine},
		{"starts that fail", (*machine).refusals},
		{"a port that is taken for a while", (*machine).takenPort},
		{"fields of the journal", (*machine).fields},
		{"a full disk", (*machine).fullDisk},
		{"a state directory elsewhere", (*machine).stateElsewhere},
		{"the runtime directory is removed", (*machine).runtimeDirectoryGone},
		{"the group of the control socket", (*machine).controlGroup},
		{"HAProxy", (*machine).haproxy},
		{"notifications", (*machine).notifications},
		{"commands that are left in containers", (*machine).leftCommands},
		{"containerd", (*machine).containerd},
		{"namespaces.conf", (*machine).namespaces},
		{"unprivileged.conf", (*machine).unprivileged},
		{"boot without an engine", (*machine).bootWithoutEngine},
		{"boot with a broken configuration", (*machine).bootBroken},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(m.in(t)) })
	}
}

// equip puts into a directory what the steps need beside packages: the tests' image, and a newer healthd.
func equip(t *testing.T, e *dockertest.Engine, root string) {
	t.Helper()
	run(t, "mkdir", "-p", filepath.Join(root, "opt"), filepath.Join(root, "etc/docker"))
	saved, err := e.Client().ImageSave(t.Context(), []string{e.Image})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	image, err := os.Create(filepath.Join(root, "opt/image.tar"))
	if err == nil {
		_, err = image.ReadFrom(saved)
	}
	if err == nil {
		err = image.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	// As make build does, so that nothing is compiled again.
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=99.0.0", "-o", filepath.Join(root, "opt/healthd-newer"), "healthd/cmd/healthd")
	run(t, "sh", "-c", `cp "$(command -v busybox)" "$1"`, "sh", filepath.Join(root, "opt/busybox"))
	write(t, filepath.Join(root, "etc/docker/daemon.json"), `{"live-restore": true, "iptables": false, "ip-forward": false, "userland-proxy": false}`)
	write(t, filepath.Join(root, "etc/healthd/conf.d/web.toml"), `[[spec]]
name = "web"
match = { unit = "web" }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "1s"
[spec.publish]
port = 8080
[[spec]]
name = "drainer"
match = { unit = "drainer" }
[spec.liveness]
tcp_socket = { port = 8080 }
[spec.publish]
drain = "4s"
[[spec]]
name = "crasher"
match = { unit = "crasher" }
[spec.liveness]
tcp_socket = { port = 8080 }
[spec.backoff]
initial = "10m"
max = "1h"
`)
}

// show returns properties of the unit, by name.
func (m *machine) show() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(m.must("systemctl", "show", unit)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[name] = value
	}
	return all
}

// expect fails unless the unit has these properties.
func (m *machine) expect(want map[string]string) {
	m.t.Helper()
	got := m.show()
	for name, value := range want {
		if got[name] != value {
			m.t.Errorf("%s=%s, want %s", name, got[name], value)
		}
	}
	if m.t.Failed() {
		m.t.Logf("the log: %s", m.must("journalctl", "-u", unit, "-o", "cat", "--no-pager", "-n", "30"))
	}
}

// awaitStatus waits until systemctl shows a text as the unit's status.
func (m *machine) awaitStatus(text string) {
	m.t.Helper()
	m.await(text, func() error { return contains(m.show()["StatusText"], text) })
}

// container runs a container of the tests' image on the machine's engine.
func (m *machine) container(name string, args ...string) {
	m.t.Helper()
	m.must(append([]string{"docker", "run", "-d", "--name", name}, args...)...)
}

// life is when a container's present run began, and how often its engine started it again.
func (m *machine) life(name string) string {
	m.t.Helper()
	return m.must("docker", "inspect", "-f", "{{.State.Running}} {{.State.StartedAt}} {{.RestartCount}}", name)
}

// containerStatus is a container as healthd shows it.
type containerStatus struct {
	Ready bool
}

// status returns what healthd shows of a container that it knows.
func (m *machine) status(name string) (containerStatus, error) {
	m.t.Helper()
	var all []containerStatus
	out, code := m.run("sh", "-c", "healthd status -o json "+name+" 2>/dev/null")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		return containerStatus{}, fmt.Errorf("status of %s: %d containers, exit code %d, %w", name, len(all), code, err)
	}
	return all[0], nil
}

func (m *machine) awaitReady(name string) {
	m.t.Helper()
	m.await(name+" to be ready", func() error {
		if s, err := m.status(name); err != nil || !s.Ready {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
}

// awaitBackOff waits until a container waits so long for its next start.
func (m *machine) awaitBackOff(name, wait string) {
	m.t.Helper()
	m.await("back-off of "+wait, func() error {
		return contains(m.must("healthd", "status", name, "-o", "json"), "back-off "+wait)
	})
}

// dropIn adds lines to the unit until undo.
func (m *machine) dropIn(name, text string) (undo func()) {
	m.t.Helper()
	path := "/etc/systemd/system/" + unit + ".d/" + name
	m.file(path, text)
	m.must("systemctl", "daemon-reload")
	return func() {
		m.must("rm", path)
		m.must("systemctl", "daemon-reload")
		m.must("systemctl", "restart", unit)
	}
}

// setting adds a file of the configuration until undo, which restarts healthd.
func (m *machine) setting(text string) (undo func()) {
	m.t.Helper()
	const path = "/etc/healthd/conf.d/zz-setting.toml"
	m.file(path, text)
	return func() {
		m.must("rm", path)
		m.must("systemctl", "restart", unit)
	}
}

func contains(text, want string) error {
	if !strings.Contains(text, want) {
		return fmt.Errorf("no %q in %q", want, text)
	}
	return nil
}

// installed returns the directory into which make install has installed healthd.
func installed(t *testing.T) string {
	t.Helper()
	return once(t, "install", func(root string) { makeInstall(t, root) })
}

func makeInstall(t *testing.T, root string) {
	t.Helper()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "make", "-C", "..", "install", "DESTDIR="+root)
	for path, mode := range map[string]fs.FileMode{
		"usr/local/bin/healthd":                                          0o755,
		"usr/local/lib/systemd/system/healthd.service":                   0o644,
		"usr/local/lib/sysusers.d/healthd.conf":                          0o644,
		"etc/healthd/healthd.toml":                                       0o644,
		"usr/local/share/doc/healthd/README.md":                          0o644,
		"usr/local/share/doc/healthd/LICENSE":                            0o644,
		"usr/local/share/doc/healthd/docs/semantics.md":                  0o644,
		"usr/local/share/doc/healthd/examples/10-web.toml":               0o644,
		"usr/local/share/doc/healthd/examples/systemd/namespaces.conf":   0o644,
		"usr/local/share/doc/healthd/examples/systemd/unprivileged.conf": 0o644,
		"usr/local/share/man/man1/healthd.1.gz":                          0o644,
		"usr/local/share/man/man5/healthd.toml.5.gz":                     0o644,
		"usr/local/share/zsh/site-functions/_healthd":                    0o644,
		"etc/default/healthd":                                            0o644,
	} {
		if i, err := os.Stat(filepath.Join(root, path)); err != nil || i.Mode().Perm() != mode {
			t.Errorf("make install: %s: %v, %v", path, i, err)
		}
	}
}

// exposed is what systemd-analyze says at the end.
var exposed = regexp.MustCompile(`Overall exposure level for healthd\.service: ([0-9.]+)`)

// exposure lets systemd itself read the unit, alone and with each drop-in, and say how much it exposes.
func (m *machine) exposure() {
	for dropIn, most := range map[string]float64{"": 2.0, "namespaces.conf": 2.6, "unprivileged.conf": 1.2} {
		dir := "/etc/systemd/system/" + unit + ".d"
		if dropIn != "" {
			m.sh("mkdir -p " + dir + "; cp " + examples + dropIn + " " + dir)
		}
		if out := m.must("systemd-analyze", "verify", "--man=no", unit); strings.Contains(out, unit) {
			m.t.Errorf("%s: systemd-analyze says: %s", dropIn, out)
		}
		out := m.must("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
		found := exposed.FindStringSubmatch(out)
		if found == nil {
			m.t.Fatalf("no figure in %s", out)
		}
		if figure, err := strconv.ParseFloat(found[1], 64); err != nil || figure > most {
			m.t.Errorf("with %q the exposure is %s, want at most %v:\n%s", dropIn, found[1], most, out)
		}
		m.must("rm", "-rf", dir)
	}
}
