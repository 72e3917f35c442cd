package engines

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const restartSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
restart_policy = %[2]q
[spec.backoff]
initial = "1s"
max = "30s"
`

// The first restart comes at once, the next ones after 1 s, 2 s and 4 s.
func crashUnderAlwaysBacksOff(t *testing.T, e harness.Engine) {
	const runs = 500 * time.Millisecond
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(restartSpec, "crash", "Always"))
	before := time.Now()
	e.Run(t, dockertest.RunOptions{Name: "crash", Labels: map[string]string{"e2e": "crash"}, Cmd: []string{"sh", "-c", "sleep 0.5; exit 1"}})
	d.Until("crash", "restarted four times", func(s harness.Status) bool { return s.RestartCount >= 4 })
	if took, want := newestStart(d, e, "crash").Sub(before), 4*runs+(0+1+2+4)*time.Second; took < want {
		t.Errorf("the fifth run began %v after the first, want %v at least", took, want)
	}
	var backoffs []string
	for _, ev := range d.Events("crash") {
		if ev.Reason == "BackOff" {
			backoffs = append(backoffs, strings.Fields(ev.Message)[1])
		}
	}
	if got, want := strings.Join(backoffs, " "), "1s 2s 4s"; !strings.HasPrefix(got, want) {
		t.Errorf("back-offs %s, want %s", got, want)
	}
}

func policies(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(restartSpec, "onfailure", "OnFailure")+fmt.Sprintf(restartSpec, "never", "Never"))
	run := func(name, spec, script string) {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": spec}, Cmd: []string{"sh", "-c", script}})
	}
	left := map[string]string{"onfailure-0": "Succeeded", "never-0": "Succeeded", "never-1": "Failed"}
	run("onfailure-0", "onfailure", "exit 0")
	run("never-0", "never", "exit 0")
	run("never-1", "never", "exit 1")
	for name, phase := range left {
		d.Until(name, phase, func(s harness.Status) bool { return s.Phase == phase })
	}
	run("onfailure-1", "onfailure", "exit 1")
	d.Until("onfailure-1", "restarted twice", func(s harness.Status) bool { return s.RestartCount >= 2 }) // so would the others be by now
	for name, phase := range left {
		if s, err := d.Status(name); err != nil || s.RestartCount != 0 || s.Phase != phase {
			t.Errorf("%s was not left alone: %+v, %v", name, s, err)
		}
	}
}

func operatorStopStays(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(restartSpec, "operator", "Always"))
	id := e.Run(t, dockertest.RunOptions{Name: "operator", Labels: map[string]string{"e2e": "operator"}})
	d.Until("operator", "ready", harness.Ready)
	e.StopByOperator(t, id)
	d.Until("operator", "stopped by the operator", func(s harness.Status) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "StoppedByOperator"
	})
	d.Stays(3*time.Second, "operator", "stopped", func(s harness.Status) bool { return s.State.Running == nil && s.RestartCount == 0 })
	e.StartByOperator(t, id)
	d.Until("operator", "ready again", harness.Ready)
	e.KillByOperator(t, id, syscall.SIGKILL)
	d.Until("operator", "killed by the operator", func(s harness.Status) bool { return s.State.Terminated != nil })
	d.Stays(2*time.Second, "operator", "stopped", func(s harness.Status) bool { return s.State.Running == nil && s.RestartCount == 0 })
	want := []string{"Started", "Ready", "NotReady", "OperatorStopped", "Started", "Ready", "NotReady", "OperatorStopped"}
	if got := d.Reasons("operator"); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func restartCommand(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, "[[spec]]\nname = \"byhand\"\nmatch = { e2e = \"byhand\" }\nreadiness = { http_get = { port = 8080, path = \"/healthz\" }, period = \"200ms\" }\n")
	e.Run(t, dockertest.RunOptions{Name: "byhand", Labels: map[string]string{"e2e": "byhand"}})
	d.Until("byhand", "ready", harness.Ready)
	if output, code := d.Run("restart", "byhand"); code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	s := d.Until("byhand", "ready again", harness.Ready)
	if s.RestartCount != 1 {
		t.Errorf("restart count %d after the command has returned, want 1", s.RestartCount)
	}
	if output, code := d.Run("restart", "no-such-container"); code != 1 || !strings.HasPrefix(output, "healthd: cannot ") {
		t.Errorf("restart of nobody: exit code %d, %s", code, output)
	}
}

func sigtermDuringDrainFinishes(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "drain"
match = { e2e = "drain" }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
failure_threshold = 1
initial_delay = "1s"
[spec.publish]
drain = "8s"
`)
	id := e.Run(t, dockertest.RunOptions{Name: "drain", Labels: map[string]string{"e2e": "drain"}})
	d.Until("drain", "ready", harness.Ready)
	before := harness.StartedAt(t, e, id)
	harness.Inside(t, e, "drain", "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?status=500")
	d.Until("drain", "draining", func(s harness.Status) bool { return s.Draining })
	if code, body, err := d.Get("/v1/ready/drain"); code != 404 || body != "draining\n" {
		t.Errorf("/v1/ready while draining: %d %q %v", code, body, err)
	}
	if err := d.Stop(); err != nil {
		t.Errorf("healthd ended with %v", err)
	}
	if after := harness.StartedAt(t, e, id); !after.After(before) {
		t.Error("healthd ended without having finished the restart")
	}
	if !e.Inspect(t, id).Running {
		t.Error("healthd left the container stopped")
	}
}
