package engines

import (
	"strings"
	"testing"

	"healthd/e2e/harness"
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
timeout = "30s"
[spec.lifecycle]
post_start = { exec = { command = ["sh", "-c", "sleep 1; echo $0 >> /hooks", "post_start"] } }
pre_stop   = { exec = { command = ["sh", "-c", "echo $0 >> /hooks", "pre_stop"] } }
`

// Hooks run inside a real container around a restart for a failed probe, with the
// container's environment in their commands. The gate decides readiness.
func hooksAndGates(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, lifecycleSpec)
	e.Run(t, dockertest.RunOptions{Name: "hooked", Labels: map[string]string{"e2e": "hooked"}, Env: []string{"GREETING=hello"}})
	d.Until("hooked", "in its post_start hook", func(s harness.Status) bool { return !s.Started && s.Condition("Ready").Reason == "PostStartPending" })
	d.Until("hooked", "started, but not ready", func(s harness.Status) bool {
		return s.Started && !s.Ready && s.Condition("ContainerReady").Status == "True" && s.Condition("Ready").Reason == "ReadinessGatesNotReady"
	})
	harness.Inside(t, e, "hooked", "grep", "-q", "^post_start$", "/hooks")
	if out, code := d.Run("gate", "hooked", "example.com/warm", "True"); code != 0 || !strings.Contains(out, "example.com/warm is True") {
		t.Errorf("healthd gate: exit %d: %s", code, out)
	}
	d.Until("hooked", "ready", harness.Ready)
	d.Until("hooked", "probed with its environment", func(s harness.Status) bool { return s.Probes["liveness"].Outcome == "Success" })

	harness.Inside(t, e, "hooked", "touch", "/sick")
	d.Until("hooked", "restarted", func(s harness.Status) bool { return s.RestartCount >= 1 })
	harness.Inside(t, e, "hooked", "rm", "/sick")
	d.Until("hooked", "ready again, as its gate outlives a run", harness.Ready)
	harness.Inside(t, e, "hooked", "sh", "-c", `test "$(head -n 3 /hooks | tr '\n' ' ')" = "post_start pre_stop post_start "`)
	if out, code := d.Run("gate", "hooked", "example.com/other", "True"); code != 1 || !strings.Contains(out, "example.com/warm") {
		t.Errorf("healthd gate of an unknown gate: exit %d: %s", code, out)
	}
}
