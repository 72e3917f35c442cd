package e2e

import (
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

const lifecycleSpec = `
[[spec]]
name = "hooked"
match = { e2e = "hooked" }
readiness_gates = ["example.com/warm"]
[spec.liveness]
exec = { command = ["sh", "-c", 'test "$1" = hello && test ! -e /sick', "sh", "$(GREETING)"] }
period = "300ms"
timeout = "5s"
[spec.lifecycle]
post_start = { exec = { command = ["sh", "-c", "sleep 1; echo $0 >> /hooks", "post_start"] } }
pre_stop   = { exec = { command = ["sh", "-c", "echo $0 >> /hooks", "pre_stop"] } }
`

// Hooks run inside a real container around a restart for a failed probe, with the
// container's environment in their commands. The gate decides readiness.
func hooksAndGates(t *testing.T, e engine) {
	d := startDaemonOn(t, e, lifecycleSpec)
	e.Run(t, dockertest.RunOptions{Name: "hooked", Labels: map[string]string{"e2e": "hooked"}, Env: []string{"GREETING=hello"}})
	d.until(20*time.Second, "hooked", "in its post_start hook", func(s status) bool { return !s.Started && s.condition("Ready").Reason == "PostStartPending" })
	d.until(30*time.Second, "hooked", "started, but not ready", func(s status) bool {
		return s.Started && !s.Ready && s.condition("ContainerReady").Status == "True" && s.condition("Ready").Reason == "ReadinessGatesNotReady"
	})
	inside(t, e, "hooked", "grep", "-q", "^post_start$", "/hooks")
	if out, code := d.run("gate", "hooked", "example.com/warm", "True"); code != 0 || !strings.Contains(out, "example.com/warm is True") {
		t.Errorf("healthd gate: exit %d: %s", code, out)
	}
	d.until(10*time.Second, "hooked", "ready", ready)
	d.until(20*time.Second, "hooked", "probed with its environment", func(s status) bool { return s.Probes["liveness"].Outcome == "Success" })

	inside(t, e, "hooked", "touch", "/sick")
	d.until(60*time.Second, "hooked", "restarted", func(s status) bool { return s.RestartCount >= 1 })
	inside(t, e, "hooked", "rm", "/sick")
	d.until(60*time.Second, "hooked", "ready again, as its gate outlives a run", ready)
	inside(t, e, "hooked", "sh", "-c", `test "$(head -n 3 /hooks | tr '\n' ' ')" = "post_start pre_stop post_start "`)
	if out, code := d.run("gate", "hooked", "example.com/other", "True"); code != 1 || !strings.Contains(out, "example.com/warm") {
		t.Errorf("healthd gate of an unknown gate: exit %d: %s", code, out)
	}
}
