package docs

import (
	"path/filepath"
	"strings"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// daemonTroubles are those of healthd itself.
var daemonTroubles = []trouble{
	{"healthd does not start: the configuration is wrong", "", func(s *stage) {
		s.log, _ = s.own(service("web", "readiness = { http_get = { port = 8080 }, perriod = \"2s\" }")).Run("run")
	}},
	{"healthd does not start: an address is in use", "", func(s *stage) {
		shared := s.d
		s.own("").Rewrite(func(text string) string { return strings.Replace(text, address(s.d), address(shared), 1) })
		s.d.URL = shared.URL
		s.log, _ = s.d.Run("run")
	}},
	{"healthd does not start: another healthd runs", "", func(s *stage) {
		first := filepath.Dir(s.d.Config)
		own := filepath.Dir(s.own("").Config)
		share := func(name string) {
			s.d.Rewrite(func(text string) string {
				return strings.Replace(text, filepath.Join(own, name), filepath.Join(first, name), 1)
			})
			output, _ := s.d.Run("run")
			s.log += strings.ReplaceAll(output, first, own)
		}
		share("state")
		share("control.sock")
	}},
	{"healthd forgets everything when it restarts", "", func(s *stage) {
		s.own("")
		const full = `mkdir -p "$0" && mount -t tmpfs -o size=8k healthd "$0" && exec "$@"`
		s.d.Under = []string{"unshare", "--mount", "sh", "-c", full, filepath.Join(filepath.Dir(s.d.Config), "state")}
		harness.StartedDaemon(s.d)
	}},
	{"healthd runs, but knows no container", "", func(s *stage) {
		s.endpoint = "unix://" + filepath.Join(s.t.TempDir(), "docker.sock")
		s.own("").Start()
	}},
	{"A command cannot reach the daemon", "", func(s *stage) { s.own("") }},
	{"A command is denied the control socket", "", func(s *stage) { harness.StartedDaemon(s.own("")) }},
	{"A reload is refused", "", func(s *stage) {
		harness.StartedDaemon(s.own(service("web", readyz)))
		s.d.Rewrite(func(text string) string { return strings.Replace(text, "200ms", "20ms", 1) })
	}},
	{"A reload has no effect", "", func(s *stage) {
		harness.StartedDaemon(s.own(service("web", readyz)))
		s.d.Rewrite(func(text string) string { return strings.Replace(text, `agent = ""`, `agent = "127.0.0.1:8647"`, 1) })
	}},
	{"curl gets 421 Misdirected Request", "", func(*stage) {}},
	{"Prometheus has no series of a container", service("billing", readyz), func(s *stage) {
		s.compose("billing", dockertest.RunOptions{})
		s.becomes("shop-billing-1", "ready", harness.Ready)
	}},
}

// address is where a daemon listens for HTTP.
func address(d *harness.Daemon) string { return strings.TrimPrefix(d.URL, "http://") }

// seenTroubles are those of which containers healthd sees, and who sees them.
var seenTroubles = []trouble{
	{"A container is not in the status", service("shipping", readyz), func(s *stage) {
		s.compose("shiping", dockertest.RunOptions{})
	}},
	{"A container of docker compose run is not in the status", service("migrate", readyz), func(s *stage) {
		s.compose("migrate", dockertest.RunOptions{Labels: map[string]string{"com.docker.compose.oneoff": "True"}})
	}},
	{"A container is Invalid", service("mail", readyz), func(s *stage) {
		s.compose("mail", dockertest.RunOptions{Labels: map[string]string{"healthd.livness.tcp_socket.port": "25"}})
	}},
	{"A container has another spec than I think", "[[spec]]\nname = \"default\"\nmatch = { \"com.docker.compose.service\" = \"rep*\" }\n" + readyz + service("reports", readyz), func(s *stage) {
		s.compose("reports", dockertest.RunOptions{})
	}},
	{"A container is ready, but the load balancer says it is down", service("front", readyz), func(s *stage) {
		s.compose("front", dockertest.RunOptions{})
		s.becomes("shop-front-1", "ready", harness.Ready)
	}},
	{"Two projects have a service of one name", "[[spec]]\nname = \"wiki\"\nmatch = { \"com.docker.compose.service\" = \"wiki\" }\n" + readyz, func(s *stage) {
		s.composeIn("shop", "wiki", "1", dockertest.RunOptions{})
		s.composeIn("blog", "wiki", "1", dockertest.RunOptions{})
	}},
}
