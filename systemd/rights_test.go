package systemd

import (
	"fmt"
	"strings"
)

// What the hardened unit could break.

// fields are how journalctl finds what is about a container.
func (m *machine) fields() {
	m.container("evil", "--label", "healthd.liveness.exec.command=[\"sh\",\"-c\",\"printf 'a\\\\nPRIORITY=0\\\\n\\\\033[2J'; exit 1\"]",
		"--label", "healthd.liveness.period=1s", "--label", "healthd.liveness.timeout=30s", "--label", "healthd.liveness.failure_threshold=1000", "healthd-test:1")
	defer m.must("docker", "rm", "-f", "evil")
	m.await("the failure in the journal", func() error {
		return contains(m.must("journalctl", "-u", unit, "CONTAINER=evil", "PROBE=liveness", "REASON=Unhealthy", "RUNTIME=docker", "SERVICE=evil", "-o", "cat", "--no-pager"),
			"evil: Unhealthy: Liveness probe failed (1/1000): a PRIORITY=0 ?[2J\n")
	})
	if out := m.must("journalctl", "-u", unit, "-p", "emerg", "-o", "cat", "--no-pager"); strings.TrimSpace(strings.ReplaceAll(out, "-- No entries --", "")) != "" {
		m.t.Errorf("a container wrote with a priority of its own: %s", out)
	}
	if out := m.must("journalctl", "-u", unit, "CONTAINER=evil", "-p", "warning", "-o", "cat", "--no-pager"); !strings.Contains(out, "Unhealthy") || strings.Contains(out, "Started container") {
		m.t.Errorf("the levels are wrong: %s", out)
	}
}

// controlGroup has members who need no other right.
func (m *machine) controlGroup() {
	m.sh("getent group operators || groupadd operators")
	defer m.setting("[listen]\ncontrol_group = \"operators\"\n")()
	m.must("systemctl", "restart", unit)
	as := func(groups string) int {
		_, code := m.run("setpriv", "--reuid=daemon", "--regid=nogroup", groups, "healthd", "status")
		return code
	}
	if code := as("--groups=operators"); code != 0 {
		m.t.Errorf("a member of the group: exit code %d", code)
	}
	if code := as("--clear-groups"); code != 1 {
		m.t.Errorf("a stranger: exit code %d", code)
	}
}

// haproxy is told who is ready over its socket, which its group may use.
func (m *machine) haproxy() {
	m.sh(`cat >> /etc/haproxy/haproxy.cfg <<'EOF'
listen stats
    bind 127.0.0.1:8404
    stats enable
    stats uri /
backend web
EOF
systemctl restart haproxy`)
	m.setting("[haproxy]\nsockets = [\"/run/haproxy/admin.sock\"]\n")
	m.file("/etc/healthd/conf.d/00-pushed.toml", "[[spec]]\nname = \"pushed\"\nmatch = { unit = \"pushed\" }\n[spec.readiness]\nhttp_get = { port = 8080, path = \"/healthz\" }\n"+
		"[spec.publish]\nport = 8080\n[spec.publish.haproxy]\nbackend = \"web\"\n")
	m.container("pushed", "--label", "unit=pushed", "healthd-test:1")
	m.must("systemctl", "restart", unit)
	m.await("a server in HAProxy", func() error {
		out, _ := m.run("/opt/busybox", "wget", "-qO-", "http://127.0.0.1:8404/;csv")
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "web,pushed,") && strings.Contains(line, ",UP,") {
				return nil
			}
		}
		return fmt.Errorf("%s\n%s", out, m.must("healthd", "events", "-n", "5"))
	})
	m.sh("docker rm -f pushed; rm /etc/healthd/conf.d/00-pushed.toml /etc/healthd/conf.d/zz-setting.toml; systemctl restart healthd")
}

// leaver leaves a command in its container with each probe, of another user than healthd.
func (m *machine) leaver(name, command string) {
	m.t.Helper()
	m.container(name, "--user", "1234", "--label", `healthd.liveness.exec.command=["sh","-c","`+command+`"]`, "--label", "healthd.liveness.period=1s",
		"--label", "healthd.liveness.timeout=300ms", "--label", "healthd.liveness.failure_threshold=1000", "healthd-test:1")
	m.await("a command that took too long", func() error { return contains(m.must("healthd", "events", name), "timed out") })
}

// left returns how many processes of the machine have that command line.
func (m *machine) left(command string) string {
	m.t.Helper()
	return strings.TrimSpace(m.must("sh", "-c", `n=0; for p in /proc/[0-9]*; do [ "$(tr '\0' ' ' < $p/cmdline 2>/dev/null)" = "$1 " ] && n=$((n+1)); done; echo $n`, "sh", command))
}

// leftCommands are killed by the unit as it is, as long as they are in the session of their command.
func (m *machine) leftCommands() {
	m.leaver("leaver", "sleep 1111 & sleep 2222")
	m.must("systemctl", "stop", unit) // which waits for the commands of probes, and begins no more
	m.await("the end of what the probe has left", func() error {
		if children, waits := m.left("sleep 1111"), m.left("sleep 2222"); children != "0" || waits != "0" {
			return fmt.Errorf("%s children, %s commands", children, waits)
		}
		return nil
	})
	m.sh("docker rm -f leaver; systemctl start healthd")
}

// containerd gives commands FIFOs for their output, which its shims open outside of the unit's mounts.
func (m *machine) containerd() {
	m.sh("ctr image import /opt/image.tar >/dev/null; ctr run -d --label 'healthd.readiness.exec.command=[\"echo\",\"hello\"]' --label healthd.readiness.period=1s docker.io/library/healthd-test:1 tasked sleep 100000")
	defer m.sh("ctr task kill -s KILL tasked; until ctr task rm tasked || ! ctr task ls | grep -q tasked; do sleep 0.1; done; ctr container rm tasked")
	defer m.setting("[[runtime]]\ntype = \"docker\"\n[[runtime]]\ntype = \"containerd\"\n")()
	m.must("systemctl", "restart", unit)
	m.awaitReady("tasked")
	m.must("sh", "-c", "ls -d /run/healthd/fifo/healthd-*")
	m.must("systemctl", "kill", "--signal=KILL", unit)
	m.awaitReady("tasked")
}

const examples = "/usr/local/share/doc/healthd/examples/systemd/"

// namespaces is the drop-in for what needs to enter containers.
func (m *machine) namespaces() {
	m.container("inside", "--network", "none", "--label", "healthd.readiness.http_get.port=8080", "--label", "healthd.readiness.http_get.path=/healthz",
		"--label", "healthd.readiness.period=1s", "healthd-test:1")
	m.await("why it cannot be asked", func() error {
		return contains(m.must("sh", "-c", "healthd status 2>&1"), "(healthd needs CAP_SYS_ADMIN and CAP_SYS_PTRACE; as a service, the drop-in namespaces.conf)")
	})
	defer m.dropIn("namespaces.conf", m.must("cat", examples+"namespaces.conf"))()
	m.must("systemctl", "restart", unit)
	m.awaitReady("inside")
	m.leaver("escaper", "(setsid sleep 3333 &) ; sleep 4444")
	m.must("systemctl", "stop", unit)
	m.await("the end of what has left its session", func() error {
		if n := m.left("sleep 3333"); n != "0" {
			return fmt.Errorf("%s are left", n)
		}
		return nil
	})
	m.must("docker", "rm", "-f", "inside", "escaper")
}

// unprivileged is the drop-in for a healthd with no right but to use the engine's socket. What it kept
// as root is its own now, and root's again after that.
func (m *machine) unprivileged() {
	m.must("systemd-sysusers")
	m.must("healthd", "hold", "web-1")
	undo := m.dropIn("unprivileged.conf", m.must("cat", examples+"unprivileged.conf"))
	before := m.life("web-1")
	m.must("systemctl", "restart", unit)
	m.awaitReady("web-1")
	if out := m.must("healthd", "status"); !strings.Contains(out, "web-1 is held") {
		m.t.Errorf("the hold is lost:\n%s", out)
	}
	m.sh(`pid=$(systemctl show -p MainPID --value healthd); grep -q '^CapEff:	0000000000000000$' /proc/$pid/status
		test "$(stat -c %U /var/lib/healthd/journal.db)" = healthd; test "$(stat -c %U /proc/$pid)" = healthd`)
	m.must("healthd", "resume", "web-1")
	m.container("mortal", "--label", "unit=web", "healthd-test:1")
	m.awaitReady("mortal")
	life := m.life("mortal")
	m.must("healthd", "restart", "mortal")
	if m.life("mortal") == life {
		m.t.Error("it cannot restart a container")
	}
	m.must("docker", "rm", "-f", "mortal")

	// A directory of root's is not its own.
	m.sh("mkdir -p /srv/roots; chmod 755 /srv/roots")
	m.file("/etc/systemd/system/"+unit+".d/roots.conf", "[Service]\nReadWritePaths=/srv/roots\n")
	restore := m.setting("[state]\ndir = \"/srv/roots\"\n")
	m.sh("systemctl daemon-reload; systemctl restart healthd")
	m.awaitStatus("permission denied (give /srv/roots to the user that healthd runs as: chown -R USER /srv/roots)")
	m.must("rm", "/etc/systemd/system/"+unit+".d/roots.conf")
	restore()

	undo()
	m.awaitReady("web-1")
	m.must("healthd", "hold", "web-1")
	m.must("healthd", "resume", "web-1")
	if status := m.show()["StatusText"]; strings.Contains(status, "cannot") {
		m.t.Errorf("as root again: %s", status)
	}
	if after := m.life("web-1"); after != before {
		m.t.Errorf("web-1 was %s, is %s", before, after)
	}
}
