package engines

import (
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

func readyOnlyAfterDelayAndFirstSuccess(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "delay"
match = { e2e = "delay" }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
initial_delay = "2s"
period = "200ms"
`)
	e.Run(t, dockertest.RunOptions{Name: "delay", Labels: map[string]string{"e2e": "delay"}})
	s := d.Until("delay", "ready", harness.Ready)
	probed := s.Probes["readiness"].LastProbeTime.Sub(s.State.Running.StartedAt)
	if probed < 2*time.Second {
		t.Errorf("ready by a probe %v after the start, before initial_delay was over", probed)
	}
	if s.Probes["readiness"].Result != "Success" {
		t.Errorf("ready with result %+v", s.Probes["readiness"])
	}
}

func wrongPortNeverReadyNeverRestarted(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "wrongport"
match = { e2e = "wrongport" }
[spec.readiness]
tcp_socket = { port = 8099 }
period = "100ms"
failure_threshold = 1
`)
	e.Run(t, dockertest.RunOptions{Name: "wrongport", Labels: map[string]string{"e2e": "wrongport"}})
	d.Until("wrongport", "probed 20 times", func(s harness.Status) bool { return s.Probes["readiness"].Run >= 20 })
	d.Stays(2*time.Second, "wrongport", "unready and never restarted", func(s harness.Status) bool {
		return !s.Ready && s.RestartCount == 0 && s.State.Running != nil
	})
	if s, _ := d.Status("wrongport"); !strings.Contains(s.Probes["readiness"].Output, "refused") {
		t.Errorf("output %q does not say what is wrong", s.Probes["readiness"].Output)
	}
}

func execFileRemovedRestartsOnce(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "file"
match = { e2e = "file" }
[spec.liveness]
exec = { command = ["cat", "/tmp/healthy"] }
period = "1s"
timeout = "30s"
failure_threshold = 2
termination_grace_period = "2s"
`)
	e.Run(t, dockertest.RunOptions{Name: "file", Labels: map[string]string{"e2e": "file"},
		Cmd: []string{"sh", "-c", "trap 'exit 0' TERM; touch /tmp/healthy; while true; do sleep 0.1; done"}})
	d.Until("file", "alive", func(s harness.Status) bool { return s.Probes["liveness"].Outcome == "Success" })
	harness.Inside(t, e, "file", "rm", "/tmp/healthy")
	d.Until("file", "alive again", func(s harness.Status) bool {
		return s.RestartCount == 1 && s.Probes["liveness"].Outcome == "Success"
	})
	d.Until("file", "probed three times more", func(s harness.Status) bool { return s.Probes["liveness"].Run >= 4 })
	failures := 0
	for _, reason := range d.Reasons("file") {
		switch reason {
		case "Unhealthy":
			failures++
		case "Killing":
			if failures != 2 {
				t.Errorf("restarted after %d failures, want 2", failures)
			}
		}
	}
	s, _ := d.Status("file")
	if last := s.LastState.Terminated; last == nil || last.Reason != "LivenessFailed" {
		t.Errorf("last state %+v, want LivenessFailed", s.LastState.Terminated)
	}
}

func startupGatesLiveness(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "gate"
match = { e2e = "gate" }
[spec.startup]
exec = { command = ["cat", "/tmp/started"] }
period = "200ms"
timeout = "30s"
failure_threshold = 1000
[spec.liveness]
exec = { command = ["cat", "/tmp/started"] }
period = "200ms"
timeout = "30s"
failure_threshold = 1
[spec.readiness]
tcp_socket = { port = 8080 }
period = "200ms"
`)
	e.Run(t, dockertest.RunOptions{Name: "gate", Labels: map[string]string{"e2e": "gate"}})
	d.Until("gate", "asked by startup five times", func(s harness.Status) bool { return s.Probes["startup"].Run >= 5 })
	s, _ := d.Status("gate")
	if s.Started || s.Ready || s.RestartCount != 0 || !s.Probes["liveness"].LastProbeTime.IsZero() {
		t.Errorf("before startup is through: %+v", s)
	}
	harness.Inside(t, e, "gate", "touch", "/tmp/started")
	d.Until("gate", "started, alive and ready", func(s harness.Status) bool {
		return s.Started && s.Ready && s.Probes["liveness"].Outcome == "Success"
	})
}

func startupFailureRestarts(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "nostart"
match = { e2e = "nostart" }
[spec.startup]
tcp_socket = { port = 8099 }
period = "200ms"
failure_threshold = 3
[spec.liveness]
tcp_socket = { port = 8099 }
period = "100ms"
failure_threshold = 1
`)
	e.Run(t, dockertest.RunOptions{Name: "nostart", Labels: map[string]string{"e2e": "nostart"}})
	s := d.Until("nostart", "restarted", func(s harness.Status) bool { return s.RestartCount >= 1 })
	if last := s.LastState.Terminated; last == nil || last.Reason != "StartupFailed" {
		t.Errorf("last state %+v, want StartupFailed", last)
	}
}

// healthd probe runs a probe once, with the same code as the daemon's own probes.
func probeCommand(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, "")
	for _, tt := range []struct {
		name    string
		labels  map[string]string
		code    int
		output  []string
		command []string
	}{
		{"http-200", labels("http_get.port", "8080", "http_get.path", "/healthz"), 0, []string{"Success"}, nil},
		{"http-500", labels("http_get.port", "8080", "http_get.path", "/healthz"), 1,
			[]string{"Failure", ":8080/healthz: status 500, wanted 200-399"}, []string{"/bin/testserver", "-status", "500"}},
		{"http-301-local", labels("http_get.port", "8080", "http_get.path", "/redirect-local"), 0, []string{"Success"}, nil},
		{"http-301-foreign", labels("http_get.port", "8080", "http_get.path", "/redirect-foreign"), 0,
			[]string{"Success", "arning", "Probe terminated redirects"}, nil},
		{"grpc-serving", labels("grpc.port", "9090"), 0, []string{"Success"}, nil},
		{"grpc-unknown-service", labels("grpc.port", "9090", "grpc.service", "nobody"), 1, []string{"Failure"}, nil},
		{"grpc-absent", labels("grpc.port", "8099"), 1, []string{"Failure", "refused"}, nil},
		{"exec-ok", labels("exec.command", `["true"]`), 0, []string{"Success"}, nil},
		{"exec-exit", labels("exec.command", `["sh","-c","echo it is broken; exit 3"]`), 1, []string{"Failure", "it is broken"}, nil},
		{"exec-outlives", labels("exec.command", `["sleep","1000"]`, "timeout", "1s"), 1, []string{"Failure", "timed out"}, nil},
		{"exec-child-holds-output", labels("exec.command", `["sh","-c","echo it is broken; sleep 1000 & exit 1"]`, "timeout", "1m"), 1, []string{"Failure", "it is broken"}, nil},
		{"exec-not-there", labels("exec.command", `["no-such-command"]`), 1, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.labels["healthd.liveness.period"] = "1h"
			tt.labels["healthd.liveness.initial_delay"] = "1h"
			tt.labels["healthd.readiness.tcp_socket.port"] = "9090"
			tt.labels["healthd.readiness.period"] = "100ms"
			e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: tt.labels, Cmd: tt.command})
			d.Until(tt.name, "listening", harness.Ready)
			output, code := d.Run("probe", tt.name, "liveness")
			if code != tt.code {
				t.Errorf("exit code %d, want %d; output:\n%s", code, tt.code, output)
			}
			for _, want := range tt.output {
				if !strings.Contains(output, want) {
					t.Errorf("output does not say %q:\n%s", want, output)
				}
			}
		})
	}
}

// Background processes of a probe's command that hold its output open delay neither its
// next results nor those of another probe. The engine alone would report one in 4 s.
func execBackgroundProcessHoldsOutput(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "holding"
match = { e2e = "holding" }
[spec.liveness]
exec = { command = ["sh", "-c", "sleep 100 & exit 0"] }
period = "1s"
timeout = "30s"
[spec.readiness]
exec = { command = ["sh", "-c", "sleep 100 & exit 1"] }
period = "1s"
timeout = "30s"
`)
	e.Run(t, dockertest.RunOptions{Name: "holding", Labels: map[string]string{"e2e": "holding"}})
	d.Until("holding", "asked ten times by each probe", func(s harness.Status) bool {
		return s.Probes["liveness"].Run >= 10 && s.Probes["readiness"].Run >= 10
	})
	if s, _ := d.Status("holding"); s.Ready || s.RestartCount != 0 || s.Probes["liveness"].Result != "Success" {
		t.Errorf("not as the exit codes say: %+v", s)
	}
}

func grpcNotServing(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, "")
	e.Run(t, dockertest.RunOptions{Name: "notserving", Labels: map[string]string{
		"healthd.readiness.grpc.port": "9090", "healthd.readiness.period": "100ms", "healthd.readiness.failure_threshold": "1",
	}})
	d.Until("notserving", "ready", harness.Ready)
	harness.Inside(t, e, "notserving", "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?grpc=NOT_SERVING")
	s := d.Until("notserving", "unready", func(s harness.Status) bool { return !s.Ready })
	if out := s.Probes["readiness"].Output; !strings.Contains(out, `service unhealthy (responded with "NOT_SERVING")`) {
		t.Errorf("output %q", out)
	}
	if s.RestartCount != 0 {
		t.Error("restarted because of readiness")
	}
}

// labels makes liveness labels from pairs of path and value.
func labels(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m["healthd.liveness."+pairs[i]] = pairs[i+1]
	}
	return m
}
