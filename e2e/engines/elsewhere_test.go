package engines

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
)

// The addresses of an engine in another network namespace are no one's here, or another one's: its containers are
// asked inside their networks, none of them is restarted for that, and no balancer is told their addresses.
func TestEngineInAnotherNetwork(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	if dockertest.Podman() {
		dockertest.PodmanCannot(t, "run in a network namespace here")
	}
	t.Parallel()
	ns := fmt.Sprintf("healthd-%d", os.Getpid())
	ip(t, "netns", "add", ns)
	t.Cleanup(func() { ip(t, "netns", "del", ns) })
	e := dockertest.StartIn(t, ns)
	d := harness.StartDaemon(t, e.Endpoint, `
[[spec]]
name = "far"
match = { e2e = "far" }
startup  = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", timeout = "30s", failure_threshold = 1000 }
liveness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", timeout = "30s", failure_threshold = 1 }
[[spec]]
name = "told"
extends = "far"
match = { e2e = "told" }
publish = { port = 8080 }
[[spec]]
name = "outside"
match = { e2e = "outside" }
liveness = { tcp_socket = { port = 8080, via = "host" }, period = "200ms", timeout = "30s", failure_threshold = 1 }
`)
	for _, name := range []string{"far", "told", "outside"} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": name}})
	}
	for restarts := range 2 { // healthd's own restart shows nothing else
		d.Until("far", "asked inside its network", func(s harness.Status) bool {
			return s.Ready && s.RestartCount == restarts && s.Probes["liveness"].Result == "Success" && s.Probes["liveness"].Run > 1
		})
		if restarts > 0 {
			break
		}
		if out, code := d.Run("restart", "far"); code != 0 {
			t.Fatalf("restart: exit code %d\n%s", code, out)
		}
	}
	const why = "its engine is in another network namespace than healthd"
	s := d.Until("told", "not ready", func(s harness.Status) bool { return s.Condition("Ready").Reason == core.NotReadyNoAddress })
	if s.Ready || s.RestartCount != 0 {
		t.Errorf("a member without an address: %+v", s)
	}
	s = d.Until("outside", "not asked", func(s harness.Status) bool { return s.Probes["liveness"].Outcome == "Unknown" })
	if !strings.Contains(s.Probes["liveness"].Output, why) || s.RestartCount != 0 {
		t.Errorf("asked from the host: %+v", s)
	}
	for name, answer := range map[string]string{"told": why, "outside": "its liveness probe cannot run: " + why} {
		if out, _ := d.Run("explain", name); !strings.Contains(out, answer) {
			t.Errorf("explain %s:\n%s", name, out)
		}
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
