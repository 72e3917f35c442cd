package systemd

import (
	"fmt"
	"strings"
)

// first starts healthd as an administrator does.
func (m *machine) first() {
	m.container("web-1", "--label", "unit=web", "healthd-test:1")
	m.must("systemctl", "enable", "--now", unit)
	if out := m.must("healthd", "status"); !strings.Contains(out, "web-1") {
		m.t.Errorf("status right after the start does not know web-1:\n%s", out)
	}
	m.awaitStatus("1 container, 1 ready")
	m.expect(map[string]string{
		"Type": "notify", "WatchdogUSec": "30s", "Restart": "always", "RestartUSec": "1s", "NRestarts": "0", "NoNewPrivileges": "yes",
		"MemoryMax": "1073741824", "StartLimitIntervalUSec": "0", "TimerSlackNSec": "2000000", "ActiveState": "active",
	})
	m.t.Logf("resident: %s", strings.TrimSpace(m.sh("grep VmRSS /proc/$(systemctl show -p MainPID --value healthd)/status")))
	m.must("test", "-s", "/var/lib/healthd/journal.db")
}

// reload changes the configuration twice, the second time for the worse.
func (m *machine) reload() {
	const conf = "/etc/healthd/conf.d/zz-later.toml"
	m.file(conf, "[[spec]]\nname = \"later\"\nmatch = { a = \"b\" }\n[spec.readiness]\ntcp_socket = { port = 80 }\n")
	m.must("systemctl", "reload", unit)
	if err := contains(m.must("journalctl", "-u", unit, "-o", "cat", "--no-pager"), `"crasher", "later"]`); err != nil {
		m.t.Error(err)
	}
	m.sh("echo wrong = 1 >> " + conf)
	if out, code := m.run("systemctl", "reload", unit); code == 0 {
		m.t.Errorf("a bad configuration was reloaded: %s", out)
	}
	if err := contains(m.show()["StatusText"], "not reloaded: 1 problem"); err != nil {
		m.t.Error(err)
	}
	m.must("rm", conf)
	m.must("systemctl", "reload", unit)
	if status := m.show()["StatusText"]; strings.Contains(status, "not reloaded") {
		m.t.Errorf("after a good reload: %s", status)
	}
	m.expect(map[string]string{"ActiveState": "active", "NRestarts": "0"})
}

// kill has systemd start healthd again, and no container notices.
func (m *machine) kill() {
	before := m.life("web-1")
	m.sh(`old=$(systemctl show -p MainPID --value healthd)
		systemctl kill --signal=KILL healthd
		until systemctl is-active -q healthd && [ "$(systemctl show -p MainPID --value healthd)" != "$old" ]; do sleep 0.05; done`)
	m.awaitReady("web-1")
	if after := m.life("web-1"); after != before {
		m.t.Errorf("web-1 was %s, is %s", before, after)
	}
	m.expect(map[string]string{"NRestarts": "1"})
}

// hang keeps the daemon from running, with a short watchdog, and waits until systemd
// has noticed and started it again. What it knew is there.
func (m *machine) hang() {
	written := func() string { return m.must("stat", "-c", "%.9Y", "/var/lib/healthd/journal.db") }
	earlier := written()
	m.must("healthd", "hold", "web-1")
	m.await("the hold in the journal", func() error {
		if written() == earlier {
			return fmt.Errorf("not written since %s", earlier)
		}
		return nil
	})
	before := m.life("web-1")
	undo := m.dropIn("short.conf", "[Service]\nWatchdogSec=2s\n")
	m.must("systemctl", "restart", unit)
	pid := m.show()["MainPID"]
	m.run("systemctl", "kill", "--signal=STOP", unit) // fails where a machine was so busy that the watchdog came first
	m.await("a restart by the watchdog", func() error {
		if now := m.show(); now["ActiveState"] != "active" || now["MainPID"] == pid {
			return fmt.Errorf("%s, PID %s", now["ActiveState"], now["MainPID"])
		}
		return contains(m.must("journalctl", "-u", unit, "-t", "systemd", "-o", "cat", "--no-pager"), "Watchdog timeout")
	})
	undo()
	if out := m.must("healthd", "status"); !strings.Contains(out, "web-1 is held") {
		m.t.Errorf("the hold is lost:\n%s", out)
	}
	m.must("healthd", "resume", "web-1")
	if after := m.life("web-1"); after != before {
		m.t.Errorf("web-1 was %s, is %s", before, after)
	}
}

// stopDuringDrain leaves no container stopped that healthd stops.
func (m *machine) stopDuringDrain() {
	m.container("drainer", "--label", "unit=drainer", "healthd-test:1")
	m.awaitReady("drainer")
	before := m.life("drainer")
	m.await("a drain", func() error {
		out, _ := m.run("healthd", "restart", "drainer", "--timeout", "500ms")
		return contains(out, "draining")
	})
	m.must("systemctl", "stop", unit)
	if after := m.life("drainer"); after == before || !strings.HasPrefix(after, "true ") {
		m.t.Errorf("drainer was %s, is %s", before, after)
	}
	m.expect(map[string]string{"Result": "success", "ActiveState": "inactive", "ExecMainStatus": "0"})
	if out := m.must("journalctl", "-u", unit, "-n", "5", "-o", "cat", "--no-pager"); !strings.Contains(out, "healthd has ended") {
		m.t.Errorf("the end of the log is lost:\n%s", out)
	}
	m.must("docker", "rm", "-f", "drainer")
	m.must("systemctl", "start", unit)
}

// upgrade replaces the program while a container waits for its restart.
func (m *machine) upgrade() {
	m.container("crasher", "--label", "unit=crasher", "healthd-test:1", "sh", "-c", "exit 3")
	m.awaitBackOff("crasher", "10m")
	web := m.life("web-1")
	m.sh("cp /usr/local/bin/healthd /opt/healthd-older; install -m 755 /opt/healthd-newer /usr/local/bin/healthd")
	m.must("systemctl", "restart", unit)
	// A healthd that is stopped starts what waits; the pause before the next start is the next longer one.
	m.awaitBackOff("crasher", "20m")
	if err := contains(m.must("journalctl", "-u", unit, "-o", "cat", "--no-pager", "-n", "30"), `"version": "99.0.0"`); err != nil {
		m.t.Error(err)
	}
	if now := m.life("web-1"); now != web {
		m.t.Errorf("web-1 was %s, is %s", web, now)
	}
	m.sh("install -m 755 /opt/healthd-older /usr/local/bin/healthd; docker rm -f crasher; systemctl restart healthd")
}

// withoutEngine starts healthd before the engine.
func (m *machine) withoutEngine() {
	m.sh("systemctl stop docker.socket docker.service")
	m.must("systemctl", "restart", unit) // which does not wait for the engine
	m.awaitStatus("waiting for docker: cannot connect to Docker at unix:///var/run/docker.sock: ")
	m.expect(map[string]string{"ActiveState": "active", "SubState": "running"})
	if out := m.must("healthd", "status"); !strings.Contains(out, "no container is known yet: not ready: waiting for the first full list from docker") {
		m.t.Errorf("status: %s", out)
	}
	if out, code := m.run("/opt/busybox", "wget", "-qO-", "http://127.0.0.1:8646/readyz"); code == 0 {
		m.t.Errorf("readyz without an engine: %s", out)
	}
	m.must("systemctl", "reload", unit)
	m.must("systemctl", "start", "docker.service")
	m.awaitStatus("1 container, 1 ready")
	m.must("/opt/busybox", "wget", "-qO-", "http://127.0.0.1:8646/readyz")
}

// bootWithoutEngine reboots a host whose engine does not start.
func (m *machine) bootWithoutEngine() {
	m.sh("systemctl disable docker.socket docker.service; systemctl mask docker.service docker.socket")
	m.reboot()
	m.expect(map[string]string{"ActiveState": "active", "NRestarts": "0"})
	m.awaitStatus("waiting for docker: cannot connect")
	m.sh("systemctl unmask docker.service docker.socket; systemctl enable docker.socket docker.service; systemctl start docker.service")
	m.awaitStatus("1 container, 1 ready")
}

// bootBroken reboots a host whose configuration is wrong: the boot goes on.
func (m *machine) bootBroken() {
	m.file("/etc/healthd/conf.d/zz-broken.toml", "nonsense = 1\n")
	m.reboot()
	m.expect(map[string]string{
		"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "78",
		"StatusText": "cannot use the configuration: /etc/healthd/conf.d/zz-broken.toml:1: nonsense: unknown key: mend it, then systemctl restart healthd",
	})
	if out := m.must("systemctl", "is-active", "multi-user.target"); strings.TrimSpace(out) != "active" {
		m.t.Errorf("the boot: %s", out)
	}
	m.must("rm", "/etc/healthd/conf.d/zz-broken.toml")
	m.must("systemctl", "restart", unit)
	m.awaitStatus("1 container, 1 ready")
}
