package balancers

import (
	"os"
	"path/filepath"
	"time"

	"healthd/e2e/harness"
)

// HAProxy by DNS. Its checks and agent checks, and pushes to it, have tests of their own, which are stricter.
var haproxyWays = []way{
	{
		name: "HAProxy DNS, hold valid 1s", program: "haproxy",
		argv:   []string{"PROGRAM", "-W", "-db", "-p", "DIR/pid", "-f", "DIR/haproxy.cfg"},
		reload: []string{"sh", "-c", "until test -s DIR/pid; do sleep 0.1; done; kill -USR2 $(head -n 1 DIR/pid)"},
		before: (*lab).saveServers,
		files: map[string]string{"haproxy.cfg": `
global
    stats socket DIR/admin.sock
    server-state-file DIR/state

defaults
    mode http
    timeout http-request 10s
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    option redispatch 1
    load-server-state-from-file global

resolvers healthd
    nameserver healthd tcp@DNS
    accepted_payload_size 8192
    timeout resolve 1s
    timeout retry   1s
    hold valid    1s
    hold obsolete 0s
    hold nx       1s
    hold other    30s
    hold refused  1h
    hold timeout  1h

frontend www
    bind FRONT
    default_backend web

backend web
    balance roundrobin
    server-template web- 10 _http._tcp.web.NAME.healthd resolvers healthd resolve-prefer ipv4 init-addr last,none
`},
		healthd: listenDNS, within: 3 * time.Second,
	},
}

// saveServers keeps for a new HAProxy what the old one knows, as ExecReload of its service may do. Without it the new one has no
// servers until healthd's first answer, and answers 503 for some milliseconds.
func (b *lab) saveServers() error {
	state, err := (&harness.HAProxy{Dir: b.dir}).Query("show servers state")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "state"), []byte(state+"\n"), 0o600)
}
