package engines

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// runInContainer runs the daemon in a container of e with the options that
// docs/configuration.md and docs/container.md name, and with dirs at their place.
func runInContainer(d *harness.Daemon, e *dockertest.Engine, dirs ...string) {
	t := d.T
	t.Helper()
	program := filepath.Join(t.TempDir(), "healthd")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "healthd/cmd/healthd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build healthd: %v: %s", err, out)
	}
	binds := []string{program + ":/healthd:ro"}
	for _, dir := range append(dirs, filepath.Dir(d.Config)) {
		binds = append(binds, dir+":"+dir)
	}
	made, err := e.Client().ContainerCreate(t.Context(), &container.Config{
		Image: e.Image, Cmd: []string{"/healthd", "run", "--config", d.Config},
	}, &container.HostConfig{
		NetworkMode: "host", PidMode: "host", CapAdd: []string{"SYS_ADMIN", "SYS_PTRACE"}, Binds: binds,
	}, nil, nil, "healthd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if log, err := e.Client().ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true}); err == nil && t.Failed() {
			b, _ := io.ReadAll(log)
			t.Logf("log of healthd:\n%s", b)
		}
		e.Remove(t, made.ID)
	})
	if err := e.Client().ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Eventually("be synced", d.Synced)
}

// In a container with the documented rights healthd does all that it does on the host.
func TestHealthdInAContainer(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e, c := dockertest.Start(t), harness.Containerd.Engine(t)
	d := harness.NewDaemonWith(t, e.Runtime()+c.Runtime(), `
[[spec]]
name = "inside"
match = { e2e = "inside" }
backoff = { initial = "100ms", max = "100ms" }
liveness = { exec = { command = ["sh", "-c", "! rm /sick"] }, period = "200ms", timeout = "30s", failure_threshold = 1 } # once
readiness = { http_get = { port = 8080, path = "/healthz", via = "container" }, period = "200ms" }
`)
	runInContainer(d, e, socketDir(e.Endpoint), socketDir(c.Endpoint), "/run/containerd/fifo")
	if out, code := d.Run("check", "--daemon"); code != 0 {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
	for _, on := range []harness.Engine{e, harness.Nerdctl{Engine: c}} {
		name := "inside-" + on.Name()
		on.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "inside"}, Network: "none"})
		d.Until(name, "ready", harness.Ready)
		on.Exec(t, name, "touch", "/sick")
		d.Until(name, "restarted", func(s harness.Status) bool { return s.RestartCount == 1 })
		d.Until(name, "ready again", harness.Ready)
		on.KillByOperator(t, name, 9)
		d.Until(name, "stopped by the operator", harness.ByOperator)
	}
}

func socketDir(endpoint string) string { return filepath.Dir(strings.TrimPrefix(endpoint, "unix://")) }
