package docs

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// Probes that ask the test server's /healthz.
const (
	readyz  = "readiness = { http_get = { port = 8080, path = \"/healthz\" }, period = \"200ms\", timeout = \"30s\" }\n"
	livez   = "liveness = { http_get = { port = 8080, path = \"/healthz\" }, period = \"200ms\", timeout = \"30s\", termination_grace_period = \"2s\" }\n"
	startup = "startup = { http_get = { port = 8080, path = \"/healthz\" }, period = \"200ms\", timeout = \"30s\", failure_threshold = 1000 }\n"
	onSick  = startup + livez

	slowSecondStart = "test -e /second && exec /bin/testserver -start-delay 1m; touch /second; exec /bin/testserver"
)

// readinessTroubles are those of containers that are not ready.
var readinessTroubles = []trouble{
	{"A container never becomes ready", service("web", `readiness = { http_get = { port = 8080, path = "/readyz" }, period = "200ms" }`), func(s *stage) {
		s.compose("web", dockertest.RunOptions{})
	}},
	{"A container never gets past its startup probe", service("search", `startup = { http_get = { port = 8080, path = "/healthz" }, period = "1s", failure_threshold = 1000 }`), func(s *stage) {
		s.compose("search", dockertest.RunOptions{Cmd: []string{"/bin/testserver", "-status", "503"}})
	}},
	{"A probe says: connection refused", service("admin", `readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms" }`), func(s *stage) {
		s.compose("admin", dockertest.RunOptions{Cmd: []string{"/bin/testserver", "-http", "127.0.0.1:8080"}})
	}},
	{"A probe says: no reply, or no connection", service("catalog", `readiness = { http_get = { port = 8080, path = "/healthz" }, period = "2s" }`), func(s *stage) {
		id := s.compose("catalog", dockertest.RunOptions{})
		s.becomes("shop-catalog-1", "ready", harness.Ready)
		harness.Set(s.t, s.e, id, "delay=1m")
	}},
	{"A probe says: container has no address", service("stock", `network = "backend"
readiness = { http_get = { port = 8080, path = "/healthz", via = "host" }, period = "200ms" }`), func(s *stage) {
		s.compose("stock", dockertest.RunOptions{})
	}},
	{"A probe says: no route to host", service("printer", `readiness = { tcp_socket = { port = 9100 }, period = "4s", timeout = "30s" }`), func(s *stage) {
		s.compose("printer", dockertest.RunOptions{})
		s.becomes("shop-printer-1", "known", func(harness.Status) bool { return true })
		s.cutOff("shop-printer-1")
	}},
	{"A probe's command is not found", service("db", `readiness = { exec = { command = ["pg_isready", "-q"] }, period = "500ms", timeout = "30s" }`), func(s *stage) {
		s.compose("db", dockertest.RunOptions{})
	}},
	{"A probe's command is denied", service("queue", `readiness = { exec = { command = ["/etc/check.sh"] }, period = "500ms", timeout = "30s" }`), func(s *stage) {
		id := s.compose("queue", dockertest.RunOptions{})
		harness.Inside(s.t, s.e, id, "sh", "-c", "mkdir -p /etc; echo '#!/bin/sh' > /etc/check.sh")
	}},
	{"A probe's command takes too long", service("index", `readiness = { exec = { command = ["sleep", "60"] }, period = "1s", timeout = "200ms" }`), func(s *stage) {
		s.compose("index", dockertest.RunOptions{})
	}},
	{"A probe with engine_health stays Unknown", service("cache", `readiness = { engine_health = {}, period = "200ms" }`), func(s *stage) {
		s.compose("cache", dockertest.RunOptions{})
	}},
	{"All probes succeed, but the container is not ready", service("pricing", readyz+`readiness_gates = ["example.com/warmed-up"]`), func(s *stage) {
		s.compose("pricing", dockertest.RunOptions{})
	}},
	{"Readiness flaps", service("cart", `readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", timeout = "30s", failure_threshold = 1 }`), func(s *stage) {
		id := s.compose("cart", dockertest.RunOptions{})
		for range 2 {
			s.becomes("shop-cart-1", "ready", harness.Ready)
			s.sick(id)
			s.becomes("shop-cart-1", "not ready", func(at harness.Status) bool { return !at.Ready })
			harness.Set(s.t, s.e, id, "status=200")
		}
	}},
	{"An https probe fails", service("login", `readiness = { http_get = { port = 8080, path = "/healthz", scheme = "https" }, period = "200ms", timeout = "30s" }`), func(s *stage) {
		s.compose("login", dockertest.RunOptions{})
	}},
	{"An https probe fails to verify the certificate", "", func(s *stage) {
		server := httptest.NewTLSServer(http.NotFoundHandler())
		s.t.Cleanup(server.Close)
		harness.StartedDaemon(s.own(service("payment", fmt.Sprintf(`readiness = { http_get = { host = "127.0.0.1", port = %d, scheme = "https", tls = { verify = true } } }`,
			server.Listener.Addr().(*net.TCPAddr).Port))))
		s.compose("payment", dockertest.RunOptions{})
		s.becomes("shop-payment-1", "known", func(harness.Status) bool { return true })
	}},
	{"A container is Paused", service("media", readyz), func(s *stage) {
		id := s.compose("media", dockertest.RunOptions{})
		s.becomes("shop-media-1", "ready", harness.Ready)
		s.e.Pause(s.t, id)
	}},
}

// restartTroubles are those of containers that are restarted.
var restartTroubles = []trouble{
	{"A container restarts again and again", service("worker", `backoff = { initial = "1h", max = "1h" }`), func(s *stage) {
		s.compose("worker", dockertest.RunOptions{Cmd: []string{"sh", "-c", "sleep 0.2; exit 1"}})
	}},
	{"A container is out of memory", service("import", ""), func(s *stage) {
		s.compose("import", dockertest.RunOptions{Memory: 8 << 20, Cmd: []string{"sh", "-c", "sleep 1; tail /dev/zero; code=$?; sleep 2; exit $code"}})
	}},
	{"A container is restarted before it is up", service("api", `liveness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms" }`), func(s *stage) {
		s.compose("api", dockertest.RunOptions{Cmd: []string{"/bin/testserver", "-start-delay", "1m"}})
	}},
	{"A job starts again for ever", service("backup", ""), func(s *stage) {
		s.compose("backup", dockertest.RunOptions{Cmd: []string{"sleep", "0.2"}})
	}},
	{"Docker restarts the container, too", service("legacy", readyz), func(s *stage) {
		s.compose("legacy", dockertest.RunOptions{RestartPolicy: "unless-stopped"})
	}},
	{"autoheal restarts the container, too", "", func(s *stage) {
		s.e.Run(s.t, dockertest.RunOptions{Name: "autoheal", Image: "willfarrell/autoheal:1.2.0"})
		harness.StartedDaemon(s.own(""))
	}},
	{"Docker says unhealthy, and healthd does nothing", service("ward", ""), func(s *stage) {
		s.compose("ward", dockertest.RunOptions{Health: &container.HealthConfig{Test: []string{"CMD", "false"}, Interval: time.Second, Retries: 1}})
	}},
	{"A restart takes very long", service("upload", startup+`liveness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", timeout = "30s", termination_grace_period = "1m" }`), func(s *stage) {
		id := s.compose("upload", dockertest.RunOptions{Cmd: []string{"/bin/testserver", "-ignore-term"}})
		s.becomes("shop-upload-1", "started", func(at harness.Status) bool { return at.Started })
		s.sick(id)
	}},
	{"A container waits for another one's network", service("vpn", ``) + service("torrent", ``), func(s *stage) {
		owner := s.compose("vpn", dockertest.RunOptions{})
		id := s.compose("torrent", dockertest.RunOptions{Network: "container:" + owner, Cmd: []string{"sleep", "1000"}})
		s.becomes("shop-torrent-1", "running", func(at harness.Status) bool { return at.State.Running != nil })
		s.e.StopByOperator(s.t, owner)
		s.becomes("shop-vpn-1", "stopped", harness.ByOperator)
		s.d.EndProcess(s.e, id)
	}},
}

// failing starts a container of a service and has it fail its liveness probe.
func (s *stage) failing(name string, o dockertest.RunOptions) {
	s.t.Helper()
	id := s.compose(name, o)
	s.becomes("shop-"+name+"-1", "started", func(at harness.Status) bool { return at.Started })
	s.sick(id)
}

// waitingTroubles are those of containers that are not restarted.
var waitingTroubles = []trouble{
	{"It is not restarted: only its readiness probe fails", service("shoes", readyz), func(s *stage) {
		id := s.compose("shoes", dockertest.RunOptions{})
		s.becomes("shop-shoes-1", "ready", harness.Ready)
		s.sick(id)
	}},
	{"It is not restarted: Held", service("sql", onSick), func(s *stage) {
		id := s.compose("sql", dockertest.RunOptions{})
		s.becomes("shop-sql-1", "started", func(at harness.Status) bool { return at.Started })
		if out, code := s.d.Run("hold", "shop-sql-1"); code != 0 {
			s.t.Fatal(out)
		}
		s.sick(id)
	}},
	{"It is not restarted: GroupLimit", service("node", onSick+readyz), func(s *stage) {
		var ids []string
		for _, number := range []string{"1", "2"} {
			ids = append(ids, s.composeIn("shop", "node", number, dockertest.RunOptions{Cmd: []string{"sh", "-c", slowSecondStart}}))
		}
		for _, name := range []string{"shop-node-1", "shop-node-2"} {
			s.becomes(name, "ready", harness.Ready)
		}
		s.sick(ids[0])
		s.becomes("shop-node-1", "down", func(at harness.Status) bool { return at.RestartCount > 0 || at.Draining })
		s.sick(ids[1])
	}},
	{"It is not restarted: RestartBudget", "", func(s *stage) {
		harness.StartedDaemon(s.own("[guard]\nmax_restarts = 2\nwindow = \"1h\"\n" + service("tax", onSick) + service("toll", onSick) + service("vat", onSick)))
		for _, name := range []string{"tax", "toll"} {
			s.failing(name, dockertest.RunOptions{})
			s.becomes("shop-"+name+"-1", "restarted", harness.Restarted(1))
		}
		s.failing("vat", dockertest.RunOptions{})
	}},
	{"It is not restarted: an operator stopped it", service("forum", onSick), func(s *stage) {
		id := s.compose("forum", dockertest.RunOptions{})
		s.becomes("shop-forum-1", "started", func(at harness.Status) bool { return at.Started })
		s.e.StopByOperator(s.t, id)
	}},
	{"It is not restarted: restart_policy Never", service("batch", onSick+`restart_policy = "Never"`), func(s *stage) {
		s.failing("batch", dockertest.RunOptions{})
	}},
	{"It is not restarted: on_failure none", service("radio", onSick+`on_failure = "none"`), func(s *stage) {
		s.failing("radio", dockertest.RunOptions{})
	}},
	{"It is not restarted: ManagedElsewhere", service("depot", onSick), func(s *stage) {
		s.failing("depot", dockertest.RunOptions{Labels: map[string]string{"com.docker.swarm.task.id": "x8k2"}})
	}},
	{"It is not restarted: WouldRestart", service("chat", onSick+`mode = "observe"`), func(s *stage) {
		s.failing("chat", dockertest.RunOptions{})
	}},
	{"It is not restarted: GaveUp", service("feed", `give_up = { restarts = 1 }`), func(s *stage) {
		s.compose("feed", dockertest.RunOptions{Cmd: []string{"sh", "-c", "sleep 0.2; exit 1"}})
	}},
	{"It is not restarted: RuntimeUnknown", "", func(s *stage) {
		p := harness.StartProxy(s.t, s.e)
		s.endpoint = p.Endpoint()
		harness.StartedDaemon(s.own(service("edge", `backoff = { initial = "1h", max = "1h" }`)))
		s.compose("edge", dockertest.RunOptions{Cmd: []string{"sh", "-c", "sleep 0.2; exit 1"}})
		s.becomes("shop-edge-1", "waiting", harness.WaitsFor("CrashLoopBackOff"))
		p.Refuse()
	}},
	{"It is not restarted: its container has --rm", service("shell", onSick), func(s *stage) {
		s.failing("shell", dockertest.RunOptions{AutoRemove: true})
	}},
	{"It is not restarted: it exited, and Docker has a restart policy", service("cron", ""), func(s *stage) {
		s.compose("cron", dockertest.RunOptions{RestartPolicy: "on-failure", Cmd: []string{"sleep", "0.2"}})
	}},
	{"It stays stopped after a reboot, or a restart of healthd", "", func(s *stage) {
		id := s.compose("ledger", dockertest.RunOptions{Cmd: []string{"sleep", "1000"}})
		s.d.EndProcess(s.e, id)
		s.fillHistory()
		harness.StartedDaemon(s.own(service("ledger", "")))
	}},
}

// cutOff has the host find no way to a container any more.
func (s *stage) cutOff(name string) {
	s.t.Helper()
	c, err := s.e.Client().ContainerInspect(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"nsenter", "--target", strconv.Itoa(c.State.Pid), "--net", "ip", "link", "set", "eth0", "down"},
		{"ip", "neigh", "flush", "to", c.NetworkSettings.Networks[s.e.Bridge].IPAddress}, // else the host tries for long where it was
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// fillHistory has the engine forget all events so far: it keeps the last 256.
func (s *stage) fillHistory() {
	s.t.Helper()
	const kept = 256
	for range kept {
		if err := s.e.Client().ImageTag(s.t.Context(), s.e.Image, "healthd-test:again"); err != nil {
			s.t.Fatal(err)
		}
	}
}
