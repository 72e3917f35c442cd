package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"healthd/runtime/docker/dockertest"
)

const (
	packageRoot = "/opt/packages"
	olderDeb    = packageRoot + "/healthd_0.0.9-1_" + runtime.GOARCH + ".deb"

	// Five lines, as a first user writes them, for this engine and a container that crashes.
	fiveLines = `[[runtime]]
endpoint = "unix:///engine/d.sock"
[[spec]]
name = "web"
match = { unit = "web" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms" }
[[spec]]
name = "crashing"
match = { unit = "crashing" }
backoff = { initial = "10m", max = "1h" }
`
)

// packaged is a machine with the packages of two versions.
type packaged struct {
	*machine
	newer   string // the path of the package
	version string
}

// An administrator installs the package, configures, starts, upgrades, goes back, removes and purges.
// No container notices, and in the end nothing is left.
func TestDebianPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	t.Parallel()
	version := thisVersion(t)
	e := dockertest.Start(t)
	p := &packaged{boot(t, e, importDebian(t, e, "bookworm", "plain"), debs(t)), packageRoot + "/healthd_" + version + "-1_" + runtime.GOARCH + ".deb", version}
	e.Run(t, dockertest.RunOptions{Name: "web-1", Labels: map[string]string{"unit": "web"}, Network: "host"})
	before := p.files()

	p.install()
	ran := p.runs(e, "web-1")
	p.upgrade()
	p.stayStopped()
	p.downgrade()
	p.refuse()
	p.remove()
	if after := p.runs(e, "web-1"); after != ran {
		t.Errorf("web-1 began to run at %s, and now at %s", ran, after)
	}
	p.purge(before)
}

func thisVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// debs returns a directory of files for machines: the packages of this version and of one before it, which came with
// other configuration files.
func debs(t *testing.T) string {
	t.Helper()
	return once(t, "packages", func(root string) {
		sources, dist := t.TempDir(), filepath.Join(root, packageRoot)
		run(t, "sh", "-ec", "cd ..; git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -c | tar -C "+sources+" -x --no-same-owner; chmod 755 "+root)
		build := func(args ...string) {
			run(t, "env", append([]string{"-u", "MAKEFLAGS", "make", "-C", sources, "packages", "DIST=" + dist, "FORMATS=deb", "ARCHES=" + runtime.GOARCH, "COMMIT=0123456789ab"}, args...)...)
		}
		build()
		run(t, "sh", "-c", "cd "+sources+" && echo '# as 0.0.9 had it' | tee -a configs/healthd.toml >> systemd/healthd.default")
		build("VERSION=0.0.9")
	})
}

// apt installs a package without a network, as an administrator who keeps edited configuration files.
func (p *packaged) apt(deb string, options ...string) string {
	p.t.Helper()
	return p.must(slices.Concat([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-o", "Dpkg::Options::=--force-confold"}, options, []string{deb})...)
}

// shows checks what a shell command prints.
func (p *packaged) shows(command, want string) {
	p.t.Helper()
	if out, _ := p.run("sh", "-c", command); strings.TrimSpace(out) != want {
		p.t.Errorf("%s: got %q, want %q", command, strings.TrimSpace(out), want)
	}
}

// install installs the older version. It does nothing before somebody starts it.
func (p *packaged) install() {
	p.t.Helper()
	if out := p.apt(olderDeb); !strings.Contains(out, "healthd: configure it in /etc/healthd, then run: systemctl start healthd") {
		p.t.Errorf("the installation does not say what to do:\n%s", out)
	}
	p.shows("systemctl is-enabled healthd; systemctl is-active healthd", "enabled\ninactive")
	p.shows("healthd version | head -1", "healthd 0.0.9")
	p.shows("getent passwd healthd | cut -d: -f6-", "/:/usr/sbin/nologin")
	p.must("healthd", "check")
	p.must("sh", "-c", "cat > /etc/healthd/conf.d/web.toml <<'EOF'\n"+fiveLines+"EOF")
	p.must("systemctl", "start", "healthd")
	p.await("the container in status", func() error {
		return contains(p.must("healthd", "status", "--no-headers"), "web-1")
	})
	p.e.Run(p.t, dockertest.RunOptions{Name: "crashing", Labels: map[string]string{"unit": "crashing"}, Cmd: []string{"false"}})
	p.awaitBackOff("crashing", "10m")
	p.must("healthd", "hold", "web-1", "--for", "2h")
	p.must("sh", "-c", "echo '# mine' >> /etc/healthd/healthd.toml")
}

// pid returns the process of the daemon.
func (p *packaged) pid() string {
	p.t.Helper()
	return strings.TrimSpace(p.must("systemctl", "show", "-p", "MainPID", "--value", unit))
}

// upgrade installs the newer version. What the daemon knew, it knows.
func (p *packaged) upgrade() {
	p.t.Helper()
	pid := p.pid()
	p.apt(p.newer)
	p.shows("systemctl is-active healthd; healthd version | head -1", "active\nhealthd "+p.version)
	if p.pid() == pid {
		p.t.Error("the older daemon goes on")
	}
	p.awaitBackOff("crashing", "20m") // the end of the older one has started it once more, docs/semantics.md
	p.await("the hold", func() error {
		return contains(p.must("healthd", "status", "web-1", "-o", "json"), `"held": true`)
	})
	p.must("sh", "-c", "healthd events | grep Held")
	p.shows("tail -1 /etc/healthd/healthd.toml", "# mine")
	p.shows("ls /etc/healthd", "conf.d\nhealthd.toml\nhealthd.toml.dpkg-dist")
	p.shows("grep -c 0.0.9 /etc/default/healthd", "0") // nobody had edited it
}

// stayStopped installs once more what the administrator has stopped, and then what runs and is disabled.
func (p *packaged) stayStopped() {
	p.t.Helper()
	p.must("systemctl", "stop", "healthd")
	p.apt(p.newer, "--reinstall")
	p.shows("systemctl is-enabled healthd; systemctl is-active healthd", "enabled\ninactive")
	p.must("systemctl", "start", "healthd")
	p.awaitBackOff("crashing", "40m")
	p.must("systemctl", "disable", "healthd")
	pid := p.pid()
	p.apt(p.newer, "--reinstall")
	p.shows("systemctl is-enabled healthd; systemctl is-active healthd", "disabled\nactive")
	if p.pid() == pid {
		p.t.Error("the daemon was not restarted")
	}
	p.must("systemctl", "enable", "healthd")
}

// downgrade goes back to the older version.
func (p *packaged) downgrade() {
	p.t.Helper()
	p.apt(olderDeb, "--allow-downgrades")
	p.shows("systemctl is-active healthd; healthd version | head -1", "active\nhealthd 0.0.9")
	p.awaitBackOff("crashing", "1h")
	p.await("the hold", func() error {
		return contains(p.must("healthd", "status", "web-1", "-o", "json"), `"held": true`)
	})
}

// refuse upgrades to a version that refuses the configuration: the older daemon goes on.
func (p *packaged) refuse() {
	p.t.Helper()
	const bad = "/etc/healthd/conf.d/zz-bad.toml"
	pid := p.pid()
	p.must("sh", "-c", "echo 'wrong = 1' > "+bad)
	if out := p.apt(p.newer); !strings.Contains(out, "healthd: not restarted: this version refuses the configuration, and the one before goes on") {
		p.t.Errorf("the upgrade does not say that the configuration is wrong:\n%s", out)
	}
	if now := p.pid(); now != pid {
		p.t.Errorf("the daemon is process %s, not %s", now, pid)
	}
	p.must("rm", bad)
	p.must("systemctl", "restart", "healthd")
}

// remove takes the program, and leaves configuration and state.
func (p *packaged) remove() {
	p.t.Helper()
	p.must("apt-get", "remove", "-y", "healthd")
	p.shows("systemctl is-active healthd; ls /usr/bin/healthd /usr/lib/systemd/system/healthd.service 2>&1 | grep -c 'No such'", "inactive\n2")
	p.must("test", "-s", "/var/lib/healthd/journal.db")
	p.must("test", "-s", "/etc/healthd/conf.d/web.toml")
}

// purge takes all the rest, but the user.
func (p *packaged) purge(before []string) {
	p.t.Helper()
	p.must("apt-get", "purge", "-y", "healthd")
	var left []string
	for _, file := range p.files() {
		if _, was := slices.BinarySearch(before, file); !was {
			left = append(left, file)
		}
	}
	if len(left) > 0 {
		p.t.Errorf("left are\n%s", strings.Join(left, "\n"))
	}
}

// files lists all files but those of running processes, logs, and package managers.
func (p *packaged) files() []string {
	p.t.Helper()
	out := p.must("sh", "-c", `find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /dev -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache/apt -o -path /var/lib/systemd \) -prune -o -print; find /run/healthd /var/lib/systemd/deb-systemd-helper* 2>/dev/null || true`)
	files := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(files)
	return files
}

// runs returns when the container's present run began, as the engine has it.
func (p *packaged) runs(e *dockertest.Engine, name string) string {
	p.t.Helper()
	i, err := e.Client().ContainerInspect(p.t.Context(), name)
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprint(i.State.StartedAt, " ", i.RestartCount)
}
