package engines

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// masterSpec is HangsSpec for servers that may be slow to start.
const masterSpec = harness.HangsSpec + `
[spec.startup]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
failure_threshold = 1000
[spec.publish]
service = %[1]q
`

// With an engine restart policy, the engine starts what ended by itself, and healthd
// restarts what hangs. Neither starts what an operator stopped.
func TestEngineRestartPolicy(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(masterSpec, "owned"))
	id := e.Run(t, dockertest.RunOptions{Name: "owned", Labels: map[string]string{"e2e": "owned"}, RestartPolicy: "always"})
	d.Until("owned", "ready", harness.Ready)
	calls := func(wantStops, wantStarts int) {
		t.Helper()
		if stops, starts := p.Count(id+"/stop$"), p.Count(id+"/start$"); stops != wantStops || starts != wantStarts {
			t.Errorf("healthd stopped it %d times and started it %d times, want %d and %d", stops, starts, wantStops, wantStarts)
		}
	}
	again := func(n int) func(harness.Status) bool {
		return func(s harness.Status) bool { return s.Ready && s.RestartCount == n }
	}
	harness.Crash(t, e, id)
	d.Until("owned", "restarted by the engine", again(1))
	d.Stays(2*time.Second, "owned", "restarted once", again(1))
	calls(0, 0)
	harness.Set(t, e, id, "status=500")
	d.Until("owned", "restarted by healthd", again(2))
	d.Stays(2*time.Second, "owned", "restarted once more", again(2))
	calls(1, 1)
	out, code := d.Run("explain", "owned")
	if want := "the engine's own restart policy is always"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("explain: exit code %d, want %q in\n%s", code, want, out)
	}
	if err := e.Client().ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Until("owned", "stopped by the operator", harness.ByOperator)
	d.Stays(2*time.Second, "owned", "stopped", harness.ByOperator)
	calls(1, 1)
}

// containerd's restart plugin starts what ended by itself, too. It leaves to healthd what healthd has stopped: for good,
// or until the back-off is over.
func TestRestartPluginOfContainerd(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Nerdctl{Engine: harness.Containerd.Engine(t)}
	const sick = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
%[2]s
[spec.liveness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "1s"
timeout = "30s"
failure_threshold = 1
termination_grace_period = "2s"
[spec.backoff]
initial = "5s"
`
	specs := fmt.Sprintf(sick, "quarantined", `on_failure = "stop"`) + fmt.Sprintf(sick, "restarted", "")
	d := harness.StartDaemonOn(t, e, specs)
	cmd := []string{"sh", "-c", "trap 'exit 0' TERM; rm -f /sick; while :; do sleep 0.1; done"}
	for _, name := range []string{"quarantined", "restarted"} {
		labels := map[string]string{"e2e": name, "containerd.io/restart.policy": "always"}
		id := e.Run(t, dockertest.RunOptions{Name: name, Labels: labels, Cmd: cmd})
		e.SetLabel(t, "", id, "containerd.io/restart.status", "running")
		d.Until(name, "alive", func(s harness.Status) bool {
			return s.EnginePolicy == "always" && s.Probes["liveness"].Outcome == "Success"
		})
		harness.Inside(t, e, name, "touch", "/sick")
	}
	again := func(n int) func(harness.Status) bool {
		return func(s harness.Status) bool { return harness.Restarted(n)(s) && s.EnginePolicy == "always" }
	}
	d.Until("restarted", "restarted by healthd", again(1))
	harness.Inside(t, e, "restarted", "sh", "-c", "until test ! -e /sick; do sleep 0.1; done; touch /sick")
	s := d.Until("restarted", "restarted by healthd after a back-off", again(2))
	if pause := s.State.Running.StartedAt.Sub(s.LastState.Terminated.FinishedAt); pause < 4*time.Second {
		t.Errorf("started %v after its end, which is before the back-off is over", pause)
	}
	for n := range 3 { // the plugin looks at all containers each time
		harness.Crash(t, e, "restarted")
		d.Until("restarted", "restarted by the plugin", again(n+3))
	}
	if s, err := d.Status("quarantined"); err != nil || s.State.Terminated == nil || s.RestartCount != 0 {
		t.Errorf("got %+v, %v; want it stopped for good", s, err)
	}
}

// A --rm container is probed and published, and neither stopped nor started.
func TestAutoRemoveIsNeverRestarted(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(masterSpec, "passing"))
	id := e.Run(t, dockertest.RunOptions{Name: "passing", Labels: map[string]string{"e2e": "passing"}, AutoRemove: true})
	d.Until("passing", "ready", harness.Ready)
	published := func(want int) {
		t.Helper()
		if code, body, err := d.Get("/v1/ready/passing/passing"); err != nil || code != want {
			t.Errorf("/v1/ready: %d %q %v, want %d", code, body, err, want)
		}
	}
	published(http.StatusOK)
	harness.Set(t, e, id, "status=500")
	d.Until("passing", "unready, and failing for long", func(s harness.Status) bool { return !s.Ready && s.Probes["liveness"].Run >= 8 })
	published(http.StatusServiceUnavailable)
	d.Stays(time.Second, "passing", "left running", func(s harness.Status) bool {
		return s.State.Running != nil && !s.Draining && s.RestartCount == 0
	})
	if out, code := d.Run("restart", "passing"); code != 1 || !strings.Contains(out, "--rm") {
		t.Errorf("restart: exit code %d: %s", code, out)
	}
	harness.Set(t, e, id, "status=200")
	d.Until("passing", "ready again", harness.Ready)
	harness.Crash(t, e, id)
	d.Eventually("forget what the engine has removed", func() error { _, err := d.Status("passing"); return harness.Gone(err) })
	if n := p.Count("POST /containers/.*/(stop|start)"); n != 0 {
		t.Errorf("%d calls to stop or start it", n)
	}
}

// A signal that is no stop signal does not count as an operator's stop, even if it ends the
// container. The container's own stop signal does.
func signalsOfAnOperator(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(restartSpec, "signalled", "Always"))
	run := func(name, stopSignal string) (id string) {
		id = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "signalled"}, StopSignal: stopSignal,
			Cmd: []string{"sh", "-c", "trap 'exit 3' HUP USR1 INT; touch /deft; while :; do sleep 0.1; done"}})
		harness.Inside(t, e, id, "sh", "-c", "until test -e /deft; do sleep 0.1; done")
		d.Until(name, "ready", harness.Ready)
		return id
	}
	plain, special := run("signalled", ""), run("signalled-specially", "USR1")
	e.KillByOperator(t, plain, syscall.SIGHUP)
	d.Until("signalled", "started again", harness.Restarted(1))
	harness.Inside(t, e, plain, "sh", "-c", "until test -e /deft; do sleep 0.1; done")
	e.KillByOperator(t, plain, syscall.SIGINT)
	e.KillByOperator(t, special, syscall.SIGUSR1)
	for _, name := range []string{"signalled", "signalled-specially"} {
		d.Until(name, "stopped by the operator", harness.ByOperator)
		d.Stays(2*time.Second, name, "stopped", harness.ByOperator)
	}
}
