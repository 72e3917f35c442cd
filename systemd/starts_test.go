package systemd

import (
	"fmt"
	"strings"
	"testing"
)

// refusals are starts that fail until somebody mends what systemctl status says. systemd does not
// repeat them.
func (m *machine) refusals() {
	for _, tt := range []struct {
		name, setting, dropIn, prepare, undo string
		exit, status                         string
	}{
		{name: "a broken configuration", setting: "nonsense = 1\n[log]\nlevel = 3\n", exit: "78",
			status: "cannot use the configuration: /etc/healthd/conf.d/zz-setting.toml:1: nonsense: unknown key (and 1 more: healthd check): mend it, then systemctl restart healthd"},
		{name: "an unknown group", setting: "[listen]\ncontrol_group = \"nobodies\"\n", exit: "78",
			status: `/etc/healthd/conf.d/zz-setting.toml:2: listen.control_group: there is no group "nobodies" on this host (then: systemctl restart healthd)`},
		{name: "a socket where nothing may be made", setting: "[listen]\ncontrol = \"/run/elsewhere/control.sock\"\n", exit: "78",
			status: "cannot create the directory of the control socket: mkdir /run/elsewhere: read-only file system: leave listen.control in /run/healthd, or make /run/elsewhere and write [Service] ReadWritePaths=/run/elsewhere with systemctl edit healthd (then: systemctl restart healthd)"},
		{name: "a port that needs a capability", setting: "[listen]\nhttp = \"127.0.0.1:80\"\n", exit: "78",
			status: "cannot listen on 127.0.0.1:80: ports below 1024 need CAP_NET_BIND_SERVICE: choose another one as listen.http: permission denied (then: systemctl restart healthd)"},
		{name: "a user that is not there", dropIn: "[Service]\nUser=nobody-at-all\n", exit: "217"},
		{name: "a configuration that its user may not read", dropIn: "[Service]\nUser=daemon\nCapabilityBoundingSet=\n", setting: "[log]\nlevel = \"info\"\n",
			prepare: "chmod 600 /etc/healthd/conf.d/zz-setting.toml", exit: "78",
			status: "cannot use the configuration: /etc/healthd/conf.d/zz-setting.toml: cannot be read: permission denied: mend it, then systemctl restart healthd"},
		{name: "a wrong command line", dropIn: "[Service]\nExecStart=\nExecStart=/usr/local/bin/healthd run --nonsense\n", exit: "78"},
	} {
		m.t.Run(tt.name, func(t *testing.T) {
			m := m.in(t)
			if tt.dropIn != "" {
				defer m.dropIn("wrong.conf", tt.dropIn)()
			}
			if tt.setting != "" {
				defer m.setting(tt.setting)()
			}
			if tt.prepare != "" {
				m.sh(tt.prepare)
			}
			if out, code := m.run("systemctl", "restart", unit); code == 0 {
				t.Errorf("it started: %s", out)
			}
			m.await("the end", func() error { return contains(m.show()["ActiveState"], "failed") })
			want := map[string]string{"NRestarts": "0", "ExecMainStatus": tt.exit}
			if tt.status != "" {
				want["StatusText"] = tt.status
			}
			m.expect(want)
		})
	}
}

// takenPort is what another program has at first. The first start fails at once, for who asked for it; then
// healthd waits for the port.
func (m *machine) takenPort() {
	const taken = "cannot listen on 127.0.0.1:8646: another program listens there: stop it, or change listen.http"
	m.must("systemctl", "stop", unit)
	m.must("systemd-run", "--unit=taker", "/opt/busybox", "httpd", "-f", "-p", "127.0.0.1:8646")
	m.await("a listener", func() error {
		out, _ := m.run("ss", "-ltn")
		return contains(out, "127.0.0.1:8646")
	})
	out, code := m.run("systemctl", "start", unit)
	if status := m.show()["StatusText"]; code == 0 || status != "" && !strings.HasPrefix(status, taken) {
		m.t.Errorf("the first start: exit code %d, %s, status %q", code, out, status)
	}
	m.awaitStatus(taken + " (healthd tries again in ")
	// Who tries again by hand does not wait.
	if out, code := m.run("systemctl", "restart", unit); code == 0 {
		m.t.Errorf("it started: %s", out)
	}
	m.awaitStatus(taken + " (healthd tries again in ")
	m.expect(map[string]string{"ActiveState": "activating", "NRestarts": "1"})
	m.must("systemctl", "stop", "taker")
	m.awaitStatus("1 container, 1 ready")
	m.expect(map[string]string{"ActiveState": "active", "NRestarts": "1"})
}

// fullDisk is one on which the journal cannot grow.
func (m *machine) fullDisk() {
	m.sh("mkdir -p /small; mount -t tmpfs -o size=256k tmpfs /small")
	defer m.dropIn("small.conf", "[Service]\nReadWritePaths=/small\n")()
	defer m.setting("[state]\ndir = \"/small\"\n")()
	m.must("systemctl", "restart", unit)
	m.awaitReady("web-1")
	before := m.life("web-1")
	m.run("sh", "-c", "cat /dev/zero > /small/fill") // fails, which fills it
	m.await("a full disk in the status", func() error {
		m.sh("healthd hold web-1; healthd resume web-1")
		return contains(m.show()["StatusText"], "no space left on device: what healthd knows is lost when it ends")
	})
	if out := m.must("healthd", "events"); !strings.Contains(out, "JournalFailed") {
		m.t.Errorf("no JournalFailed in %s", out)
	}
	m.expect(map[string]string{"ActiveState": "active"})
	m.must("rm", "/small/fill")
	m.await("a journal that is written again", func() error {
		if status := m.show()["StatusText"]; strings.Contains(status, "cannot write") {
			return fmt.Errorf("%s", status)
		}
		return nil
	})
	if after := m.life("web-1"); after != before {
		m.t.Errorf("web-1 was %s, is %s", before, after)
	}
}

// stateElsewhere needs a line in a drop-in, which the status says.
func (m *machine) stateElsewhere() {
	m.must("mkdir", "-p", "/srv/healthd")
	defer m.setting("[state]\ndir = \"/srv/healthd\"\n")()
	m.must("systemctl", "restart", unit)
	m.awaitStatus("1 ready, 0 restarting; cannot use /srv/healthd/journal.db: ")
	if err := contains(m.show()["StatusText"], "read-only file system (make /srv/healthd, write [Service] ReadWritePaths=/srv/healthd with systemctl edit healthd, and restart healthd): what healthd knows is lost when it ends"); err != nil {
		m.t.Error(err)
	}
	defer m.dropIn("state.conf", "[Service]\nReadWritePaths=/srv/healthd\n")()
	m.must("systemctl", "restart", unit)
	m.awaitStatus("1 ready, 0 restarting")
	if status := m.show()["StatusText"]; strings.Contains(status, "cannot") {
		m.t.Errorf("with ReadWritePaths: %s", status)
	}
	m.must("test", "-s", "/srv/healthd/journal.db")
}

// runtimeDirectoryGone takes the control socket away from a daemon that runs.
func (m *machine) runtimeDirectoryGone() {
	before, pid := m.life("web-1"), m.show()["MainPID"]
	m.must("rm", "-r", "/run/healthd")
	m.awaitStatus("1 container, 1 ready, 0 restarting; the control socket /run/healthd/control.sock is gone: systemctl restart healthd")
	if now := m.show(); now["ActiveState"] != "active" || now["MainPID"] != pid {
		m.t.Errorf("it is %s", now["ActiveState"])
	}
	m.must("systemctl", "restart", unit)
	m.awaitReady("web-1")
	if after := m.life("web-1"); after != before {
		m.t.Errorf("web-1 was %s, is %s", before, after)
	}
}
