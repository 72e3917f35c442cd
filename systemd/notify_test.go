package systemd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// pager is a web server of the machine: it keeps what it gets, and what signs it.
const pager = `mkdir -p /srv/pager/cgi-bin
cat > /srv/pager/cgi-bin/hook <<'EOF'
#!/bin/sh
cat > /srv/pager/body
printf %s "$HTTP_X_HEALTHD_TIMESTAMP" > /srv/pager/timestamp
printf %s "$HTTP_X_HEALTHD_SIGNATURE" > /srv/pager/signature
printf 'Content-Type: text/plain\r\n\r\nok\n'
EOF
cat > /srv/pager/cgi-bin/chat-token <<'EOF'
#!/bin/sh
cat > /srv/pager/chat
printf 'Content-Type: text/plain\r\n\r\nok\n'
EOF
chmod 755 /srv/pager/cgi-bin/*
systemd-run --unit=pager /opt/busybox httpd -f -p 127.0.0.1:9911 -h /srv/pager
mkdir -p -m 700 /etc/credstore
(umask 077; echo signing-secret > /etc/credstore/oncall-key; echo 'generic://127.0.0.1:9911/cgi-bin/chat-token?disabletls=yes' > /etc/credstore/chat-url)`

const notifySetting = `[[notify]]
name = "hook"
webhook = "http://127.0.0.1:9911/cgi-bin/hook"
secret_file = "oncall-key"
[[notify]]
name = "chat"
url_file = "chat-url"
[[notify]]
name = "page"
command = ["sh", "-c", "cat > /var/lib/healthd/told && cp /var/lib/healthd/told /tmp/told"]
[[notify]]
name = "beyond"
command = ["sh", "-c", "cat > /etc/told"]
`

// notifications leave the unit as it is: by a webhook, by the process for chat, and by a command, which has the rights of
// the unit and no more. The secrets are credentials, which nothing shows.
func (m *machine) notifications() {
	m.sh(pager)
	defer m.sh("systemctl stop pager; rm -rf /srv/pager /etc/credstore /var/lib/healthd/told")
	undo := m.setting(notifySetting)
	if out, code := m.run("healthd", "reload"); code != 1 || !strings.Contains(out, `: notify[#1].secret_file: "oncall-key" cannot be read: `) || !strings.Contains(out, "then systemctl restart healthd") {
		m.t.Errorf("before there are credentials: exit code %d: %s", code, out)
	}
	undo()
	m.sh("mount --make-rshared /") // as on a host: systemd hands credentials over by a mount
	defer m.dropIn("credentials.conf", "[Service]\nLoadCredential=oncall-key:/etc/credstore/oncall-key\nLoadCredential=chat-url:/etc/credstore/chat-url\n")()
	defer m.setting(notifySetting)()
	m.must("systemctl", "restart", unit)
	m.must("healthd", "check") // the packages ask it before an upgrade
	m.must("systemctl", "reload", unit)

	out, code := m.run("healthd", "notify", "test")
	for _, want := range []string{"hook: delivered in ", "chat: delivered in ", "page: delivered in ", "beyond: failed after ", "Read-only file system", "healthd: cannot notify 1 of 4 receivers"} {
		if code != 1 || !strings.Contains(out, want) {
			m.t.Errorf("no %q, exit code %d:\n%s", want, code, out)
		}
	}
	body := m.must("cat", "/srv/pager/body")
	mac := hmac.New(sha256.New, []byte("signing-secret"))
	mac.Write([]byte(m.must("cat", "/srv/pager/timestamp") + "." + body))
	if want, got := "sha256="+hex.EncodeToString(mac.Sum(nil)), m.must("cat", "/srv/pager/signature"); got != want {
		m.t.Errorf("the signature of %s is %q, want %q", body, got, want)
	}
	for file, want := range map[string]string{"/srv/pager/chat": "Test of healthd", "/var/lib/healthd/told": `"receiver":"page"`} {
		if text := m.must("cat", file); !strings.Contains(text, want) {
			m.t.Errorf("%s has %q", file, text)
		}
	}
	if _, code := m.run("test", "-e", "/tmp/told"); code == 0 {
		m.t.Error("the command has written to the /tmp of all")
	}
	for what, text := range map[string]string{"test": out, "journal": m.must("journalctl", "-u", unit, "--no-pager"), "unit": m.must("systemctl", "show", unit), "events": m.must("healthd", "events")} {
		if strings.Contains(text, "signing-secret") || strings.Contains(text, "chat-token") {
			m.t.Errorf("the %s shows a secret:\n%s", what, text)
		}
	}
}
