package engines

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// Docker tries a refused start by its own restart policy once. healthd goes on from there.
func TestEngineGivesUp(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.NewDaemon(t, e.Endpoint, "[[spec]]\nname = \"refused\"\nmatch = { e2e = \"refused\" }\nbackoff = { initial = \"1s\" }\n")
	d.Rewrite(func(text string) string { return strings.Replace(text, "[listen]", "relist = \"1s\"\n[listen]", 1) })
	harness.StartedDaemon(d)
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := e.Client().ContainerCreate(t.Context(), &container.Config{Image: e.Image, Labels: map[string]string{"e2e": "refused"}}, &container.HostConfig{
		RestartPolicy: container.RestartPolicy{Name: "unless-stopped"},
		Mounts:        []mount.Mount{{Type: mount.TypeBind, Source: dir, Target: "/data"}},
	}, nil, nil, "refused")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Remove(t, made.ID) })
	if err := e.Client().ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Until("refused", "ready", harness.Ready)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	harness.Crash(t, e, made.ID)
	d.Until("refused", "refused", func(harness.Status) bool { return d.CountEvents("refused", "EngineGaveUp") == 1 })
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.Until("refused", "started by healthd", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
}

// Docker's own restart policy starts a container no more that a client has sent a signal, whatever that does: the HUP
// of a log rotation as well (moby#41302).
func TestSignalSwitchesTheEnginesPolicyOff(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.StartDaemonOn(t, e, "[[spec]]\nname = \"rotated\"\nmatch = { e2e = \"rotated\" }\n")
	id := e.Run(t, dockertest.RunOptions{Name: "rotated", Labels: map[string]string{"e2e": "rotated"}, RestartPolicy: "unless-stopped",
		Cmd: []string{"sh", "-c", "trap '' HUP; touch /deaf; while :; do sleep 0.1; done"}})
	harness.Inside(t, e, id, "sh", "-c", "until test -e /deaf; do sleep 0.1; done")
	d.Until("rotated", "ready", harness.Ready)
	e.KillByOperator(t, id, syscall.SIGHUP)
	harness.Crash(t, e, id)
	d.Until("rotated", "started by healthd", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	if n := d.CountEvents("rotated", "EngineGaveUp"); n != 1 {
		t.Errorf("%d events tell that the engine does not start it", n)
	}
}
