package engines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const viaSpecs = `
[[spec]]
name = "via-none"
match = { e2e = "via-none" }
startup   = { grpc = { port = 9000 }, period = "200ms" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
liveness  = { tcp_socket = { port = 7000 }, period = "200ms" }
lifecycle = { pre_stop = { http_get = { port = 8080, path = "/healthz" } } }
backoff   = { initial = "100ms", max = "100ms" }
[[spec]]
name = "via-host"
match = { e2e = "via-host" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
`

// onLoopback is a server that listens at 127.0.0.1 only.
func onLoopback(name, network string) dockertest.RunOptions {
	return dockertest.RunOptions{
		Name: name, Labels: map[string]string{"e2e": name}, Network: network,
		Cmd: []string{"/bin/testserver", "-http", "127.0.0.1:8080", "-grpc", "127.0.0.1:9000", "-tcp", "127.0.0.1:7000"},
	}
}

// internalNetwork makes a network without a way out.
func internalNetwork(t *testing.T, e *dockertest.Engine) string {
	t.Helper()
	made, err := e.Client().NetworkCreate(t.Context(), "via-internal", network.CreateOptions{Driver: "bridge", Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Client().NetworkRemove(context.WithoutCancel(t.Context()), made.ID); err != nil {
			t.Error(err)
		}
	})
	return "via-internal"
}

// Services that only their own container reaches are probed in its network where it has no
// address.
func servicesInsideTheContainer(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, viaSpecs)
	id := e.Run(t, onLoopback("via-none", "none"))
	e.Run(t, onLoopback("via-host", ""))
	d.Until("via-none", "ready", harness.Ready)
	s := d.Until("via-host", "probed from the host", func(s harness.Status) bool { return s.Probes["readiness"].Run > 1 })
	if s.Ready || !strings.Contains(s.Probes["readiness"].Output, "refused") {
		t.Errorf("from the host, a service on 127.0.0.1 answers: %+v", s.Probes["readiness"])
	}
	if out, code := d.Run("probe", "via-none", "readiness"); code != 0 || !strings.Contains(out, "status 200") {
		t.Errorf("probe: exit code %d\n%s", code, out)
	}
	if out, code := d.Run("restart", "via-none"); code != 0 {
		t.Errorf("restart: exit code %d\n%s", code, out)
	}
	d.Until("via-none", "ready in its second run", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	if wrong := d.Events("via-none"); strings.Contains(fmt.Sprint(wrong), "FailedP") {
		t.Errorf("a hook failed: %+v", wrong)
	}
	e.Remove(t, id)
	d.Eventually("let go of the process", func() error {
		if n := pidfds(d); n > 0 {
			return fmt.Errorf("%d processes are held", n)
		}
		return nil
	})
}

// Where it has an address, via = "container" says so.
func TestProbesInsideAnInternalNetwork(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, `
[[spec]]
name = "via-internal"
match = { e2e = "via-internal" }
readiness = { http_get = { port = 8080, path = "/redirect-local", via = "container" }, period = "200ms", failure_threshold = 1 }
`)
	e.Run(t, onLoopback("via-internal", internalNetwork(t, e)))
	d.Until("via-internal", "ready", harness.Ready)
	if out, code := d.Run("explain", "via-internal"); code != 0 || !strings.Contains(out, "http_get.via") || strings.Contains(out, "warning") {
		t.Errorf("explain: exit code %d\n%s", code, out)
	}
}

// While the engine is away, only the probe sees that a container has ended.
func TestEndSeenInsideTheContainer(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, `
[[spec]]
name = "via-unseen"
match = { e2e = "via-unseen" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms" }
`)
	id := e.Run(t, onLoopback("via-unseen", "none"))
	d.Until("via-unseen", "ready", harness.Ready)
	p.Refuse()
	d.EndProcess(e, id)
	d.Until("via-unseen", "unready: it has ended", func(s harness.Status) bool { return !s.Ready })
	p.Accept()
	d.Until("via-unseen", "ready in its second run", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
}

// pidfds counts the processes that healthd holds.
func pidfds(d *harness.Daemon) int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.Cmd.Process.Pid))
	if err != nil {
		d.T.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

// Without CAP_SYS_ADMIN, only what needs it does not work, and healthd says so.
func TestNoCapabilityForNamespaces(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.NewDaemon(t, e.Endpoint, `
[[spec]]
name = "powerless"
match = { e2e = "powerless-*" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
[[spec]]
name = "not-chosen"
match = { e2e = "not-chosen" }
readiness = { tcp_socket = { port = 8080, via = "container" } }
`)
	d.Under = []string{"setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"}
	d.Start()
	d.Eventually("be synced", d.Synced)
	e.Run(t, dockertest.RunOptions{Name: "powerless-host", Labels: map[string]string{"e2e": "powerless-host"}})
	e.Run(t, onLoopback("powerless-none", "none"))
	d.Until("powerless-host", "ready", harness.Ready)
	const why = "cannot enter the container's network namespace: operation not permitted (healthd needs CAP_SYS_ADMIN and CAP_SYS_PTRACE; as a service, the drop-in namespaces.conf)"
	d.Until("powerless-none", "of unknown health", func(s harness.Status) bool {
		p := s.Probes["readiness"]
		return !s.Ready && s.RestartCount == 0 && p.Outcome == "Unknown" && strings.Contains(p.Output, why)
	})
	const missing = `WARN	probes and hooks with via = "container" cannot run, nor those of containers without an address`
	if log := d.Log.String(); strings.Count(log, missing) != 1 {
		t.Error("the log should say once what is missing")
	}
	const warning = "its readiness probe cannot run: healthd " + why
	for _, args := range [][]string{{"explain", "powerless-none"}, {"check"}} {
		if out, code := d.Run(args...); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), warning) {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
}
