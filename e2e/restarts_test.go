package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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

// Not parallel: the times are checked to 0.3 s. They include the engine's own time for a
// start, which is measured and subtracted. On a busy machine the test tries again.
func crashUnderAlwaysBacksOff(t *testing.T, e engine) {
	d := startDaemonOn(t, e, fmt.Sprintf(restartSpec, "crash", "Always"))
	var off string
	for try := range 3 {
		name := fmt.Sprintf("crash-%d", try)
		most := 300*time.Millisecond + startLatency(t, e)
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "crash"}, Cmd: []string{"sh", "-c", "sleep 0.5; exit 1"}})
		off = ""
		for restart, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
			s := d.until(time.Minute, name, "restarted again", func(s status) bool { return s.RestartCount == restart+1 })
			waited := startedAt(t, e, name).Sub(s.LastState.Terminated.FinishedAt)
			if waited < want || waited > want+most {
				off += fmt.Sprintf("restart %d came %v after the exit, want %v to %v; ", restart+1, waited, want, want+most)
			}
		}
		e.Remove(t, name)
		if off == "" {
			return
		}
		t.Log(off)
	}
	t.Error(off)
}

// startLatency measures how long the engine takes from a start request to the start.
func startLatency(t *testing.T, e engine) time.Duration {
	t.Helper()
	id := e.Create(t, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}})
	begun := time.Now()
	e.StartByOperator(t, id)
	return startedAt(t, e, id).Sub(begun)
}

func policies(t *testing.T, e engine) {
	d := startDaemonOn(t, e, fmt.Sprintf(restartSpec, "onfailure", "OnFailure")+fmt.Sprintf(restartSpec, "never", "Never"))
	for _, tt := range []struct {
		name, spec, script string
		restarts           bool
		phase              string
	}{
		{"onfailure-0", "onfailure", "exit 0", false, "Succeeded"},
		{"onfailure-1", "onfailure", "exit 1", true, "Running"},
		{"never-0", "never", "exit 0", false, "Succeeded"},
		{"never-1", "never", "exit 1", false, "Failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: map[string]string{"e2e": tt.spec}, Cmd: []string{"sh", "-c", tt.script}})
			if tt.restarts {
				d.until(20*time.Second, tt.name, "restarted twice", func(s status) bool { return s.RestartCount >= 2 })
				return
			}
			d.until(20*time.Second, tt.name, tt.phase, func(s status) bool { return s.Phase == tt.phase })
			d.stays(2500*time.Millisecond, tt.name, "left alone", func(s status) bool { return s.RestartCount == 0 && s.Phase == tt.phase })
		})
	}
}

func operatorStopStays(t *testing.T, e engine) {
	d := startDaemonOn(t, e, fmt.Sprintf(restartSpec, "operator", "Always"))
	id := e.Run(t, dockertest.RunOptions{Name: "operator", Labels: map[string]string{"e2e": "operator"}})
	d.until(20*time.Second, "operator", "ready", ready)
	e.StopByOperator(t, id)
	d.until(20*time.Second, "operator", "stopped by the operator", func(s status) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "StoppedByOperator"
	})
	d.stays(3*time.Second, "operator", "stopped", func(s status) bool { return s.State.Running == nil && s.RestartCount == 0 })
	e.StartByOperator(t, id)
	d.until(20*time.Second, "operator", "ready again", ready)
	e.KillByOperator(t, id, syscall.SIGKILL)
	d.until(20*time.Second, "operator", "killed by the operator", func(s status) bool { return s.State.Terminated != nil })
	d.stays(2*time.Second, "operator", "stopped", func(s status) bool { return s.State.Running == nil && s.RestartCount == 0 })
	want := []string{"Started", "Ready", "NotReady", "OperatorStopped", "Started", "Ready", "NotReady", "OperatorStopped"}
	if got := d.reasons("operator"); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func restartCommand(t *testing.T, e engine) {
	d := startDaemonOn(t, e, "[[spec]]\nname = \"byhand\"\nmatch = { e2e = \"byhand\" }\nreadiness = { http_get = { port = 8080, path = \"/healthz\" }, period = \"200ms\" }\n")
	e.Run(t, dockertest.RunOptions{Name: "byhand", Labels: map[string]string{"e2e": "byhand"}})
	d.until(20*time.Second, "byhand", "ready", ready)
	if output, code := d.run("restart", "byhand"); code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	s := d.until(20*time.Second, "byhand", "ready again", ready)
	if s.RestartCount != 1 {
		t.Errorf("restart count %d after the command has returned, want 1", s.RestartCount)
	}
	if output, code := d.run("restart", "no-such-container"); code != 1 || !strings.HasPrefix(output, "healthd: cannot ") {
		t.Errorf("restart of nobody: exit code %d, %s", code, output)
	}
}

func sigtermDuringDrainFinishes(t *testing.T, e engine) {
	d := startDaemonOn(t, e, `
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
drain = "4s"
`)
	id := e.Run(t, dockertest.RunOptions{Name: "drain", Labels: map[string]string{"e2e": "drain"}})
	d.until(20*time.Second, "drain", "ready", ready)
	before := startedAt(t, e, id)
	inside(t, e, "drain", "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?status=500")
	d.until(20*time.Second, "drain", "draining", func(s status) bool { return s.Draining })
	if code, body, err := d.get("/v1/ready/drain"); code != 404 || body != "draining\n" {
		t.Errorf("/v1/ready while draining: %d %q %v", code, body, err)
	}
	if err := d.stop(40 * time.Second); err != nil {
		t.Errorf("healthd ended with %v", err)
	}
	if after := startedAt(t, e, id); !after.After(before) {
		t.Error("healthd ended without having finished the restart")
	}
	if !e.Inspect(t, id).Running {
		t.Error("healthd left the container stopped")
	}
}
