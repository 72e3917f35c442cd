package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

// imageArchive is the image for docker load, made as make image does.
var imageArchive = sync.OnceValues(func() (string, error) {
	dir, err := harness.Built()
	if err != nil {
		return "", err
	}
	arch, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		return "", err
	}
	name := strings.TrimSpace(string(arch))
	program := filepath.Join(dir, "healthd-static")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=e2e", "-o", program, "healthd/cmd/healthd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build healthd: %w: %s", err, out)
	}
	if out, err := exec.Command("go", "run", "healthd/release/image", "-version", "e2e", "-out", dir, "-binary", name+"="+program).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot make the image: %w: %s", err, out)
	}
	return filepath.Join(dir, "healthd-image-"+name+".tar"), nil
})

// loadImage is docker load of healthd's image.
func loadImage(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	path, err := imageArchive()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	loaded, err := e.Client().ImageLoad(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Body.Close()
	if out, err := io.ReadAll(loaded.Body); err != nil || !bytes.Contains(out, []byte("healthd:latest")) {
		t.Fatalf("docker load: %v: %s", err, out)
	}
}

// imaged is a healthd that runs in a container of its image. daemon.url and its files are not used: it is asked
// with docker exec.
type imaged struct {
	*harness.Daemon
	engine *dockertest.Engine
	id     string
}

// runImage is docker run -d --name healthd -v SOCKET:/var/run/docker.sock -v VOLUME:/var/lib/healthd healthd.
func runImage(t *testing.T, e *dockertest.Engine, volume string, labels map[string]string) *imaged {
	t.Helper()
	binds := []string{strings.TrimPrefix(e.Endpoint, "unix://") + ":/var/run/docker.sock"}
	if volume != "" {
		binds = append(binds, volume+":/var/lib/healthd")
	}
	return startImaged(t, e, "healthd", &container.Config{Labels: labels, Healthcheck: &container.HealthConfig{Interval: time.Second}},
		&container.HostConfig{Binds: binds, RestartPolicy: container.RestartPolicy{Name: "unless-stopped"}})
}

// startImaged runs healthd's image and waits until it answers.
func startImaged(t *testing.T, e *dockertest.Engine, name string, c *container.Config, host *container.HostConfig) *imaged {
	t.Helper()
	c.Image = "healthd:latest"
	made, err := e.Client().ContainerCreate(t.Context(), c, host, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	h := &imaged{Daemon: &harness.Daemon{T: t}, engine: e, id: made.ID}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of healthd:\n%s", h.logs())
		}
		e.Remove(t, made.ID)
	})
	if err := e.Client().ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	h.Eventually("answer docker exec", func() error {
		if out, code := h.exec("healthd", "status"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	return h
}

func (h *imaged) logs() string {
	// The test's own context has ended when a cleanup asks.
	out, err := exec.Command("docker", "-H", h.engine.Endpoint, "logs", h.id).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// exec is docker exec healthd ARGV….
func (h *imaged) exec(argv ...string) (output string, code int) {
	h.T.Helper()
	c := h.engine.Client()
	ctx, cancel := context.WithTimeout(h.T.Context(), patience.Limit/4) // who waits for something tries again
	defer cancel()
	made, err := c.ContainerExecCreate(ctx, h.id, container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err.Error(), -1
	}
	attached, err := c.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return err.Error(), -1
	}
	defer attached.Close()
	defer context.AfterFunc(ctx, attached.Close)()
	var both bytes.Buffer
	if _, err := stdcopy.StdCopy(&both, &both, attached.Reader); err != nil {
		return err.Error(), -1
	}
	i, err := c.ContainerExecInspect(ctx, made.ID)
	if err != nil {
		return err.Error(), -1
	}
	return both.String(), i.ExitCode
}

// until waits until wanted returns true for a container's status.
func (h *imaged) until(name, what string, wanted func(harness.Status) bool) harness.Status {
	h.T.Helper()
	var all []harness.Status
	h.Eventually("see "+name+" "+what, func() error {
		out, code := h.exec("/healthd", "status", name, "-o", "json")
		if start := strings.IndexByte(out, '['); code != 0 || start < 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		} else if all = nil; json.NewDecoder(strings.NewReader(out[start:])).Decode(&all) != nil || len(all) != 1 {
			return fmt.Errorf("no status in %s", out)
		}
		if !wanted(all[0]) {
			return fmt.Errorf("its status is %+v", all[0])
		}
		return nil
	})
	return all[0]
}

// liveness says what the newest probe of it found.
func liveness(outcome, text string) func(harness.Status) bool {
	return func(s harness.Status) bool {
		p := s.Probes["liveness"]
		return p.Outcome == outcome && strings.Contains(p.Output, text)
	}
}

// livenessLabels are those of a container that is restarted soon after it hangs.
func livenessLabels(handler, value string) map[string]string {
	return map[string]string{
		"healthd.liveness." + handler: value, "healthd.liveness.period": "200ms", "healthd.liveness.failure_threshold": "2",
		"healthd.termination_grace_period": "2s", "healthd.backoff.initial": "1s",
	}
}

// The one-liner: an image without any configuration heals by labels alone, leaves itself alone, restarts nothing
// that it cannot reach, and says what does not work.
func TestImage(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	loadImage(t, e)
	volume := "healthd-state"
	t.Cleanup(func() { _ = e.Client().VolumeRemove(t.Context(), volume, true) })
	e.Network(t, "apart")
	probed := livenessLabels("http_get.port", "8080")
	probed["healthd.liveness.http_get.path"] = "/healthz"
	near := e.Run(t, dockertest.RunOptions{Name: "near", Labels: probed})
	checked := livenessLabels("engine_health", "{}")
	e.Run(t, dockertest.RunOptions{Name: "checked", Labels: checked, Health: &container.HealthConfig{
		Test: []string{"CMD", "sh", "-c", "! rm /sick"}, Interval: 500 * time.Millisecond, Retries: 1,
	}})
	far := e.Run(t, dockertest.RunOptions{Name: "far", Labels: livenessLabels("tcp_socket.port", "8080"), Network: "apart"})
	e.Run(t, dockertest.RunOptions{Name: "onhost", Labels: livenessLabels("tcp_socket.port", "1"), Network: "host", Cmd: []string{"sleep", "1000"}})
	e.Run(t, dockertest.RunOptions{Name: "commanded", Labels: livenessLabels("exec.command", `["true"]`)})
	own := livenessLabels("tcp_socket.port", "1")
	own["healthd.enable"] = "true"
	h := runImage(t, e, volume, own)

	h.until("near", "alive", liveness("Success", ""))
	h.until("far", "unreached", liveness("Unknown", "it is in the network apart, and healthd's own container (healthd) is not"))
	h.until("onhost", "unreached", liveness("Unknown", "run healthd with --network=host"))
	h.until("commanded", "alive", liveness("Success", ""))
	hangUp(t, e, near)
	harness.Inside(t, e, "checked", "touch", "/sick")
	h.until("near", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && liveness("Success", "")(s) })
	h.until("checked", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && liveness("Success", "")(s) })

	imageSaysWhatItCannot(t, h)
	imageInAnIsolatedNetwork(t, h)
	imageFollowsItsNetworks(t, h, far)

	h.Eventually("be healthy", func() error {
		c, err := e.Client().ContainerInspect(t.Context(), h.id)
		if err == nil && (c.State.Health == nil || c.State.Health.Status != "healthy") {
			err = fmt.Errorf("its health is %+v", c.State.Health)
		}
		return err
	})
	imageServices(t, e, h)
	e.Remove(t, h.id)
	imageInTheNetworkOfAnother(t, e)
	h = runImage(t, e, volume, nil)
	h.until("near", "alive after healthd's container was made anew, with its restart remembered",
		func(s harness.Status) bool { return s.RestartCount == 1 && liveness("Success", "")(s) })
	if log := h.logs(); strings.Contains(log, "mount a volume") {
		t.Errorf("with a volume it says: %s", log)
	}
}

// hangUp stops the main process of a container, so that it accepts connections and does not answer.
func hangUp(t *testing.T, e *dockertest.Engine, id string) {
	t.Helper()
	if err := syscall.Kill(e.Inspect(t, id).Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// imageInTheNetworkOfAnother uses a container's network, which goes when that one is started again. What healthd
// then cannot reach has not failed.
func imageInTheNetworkOfAnother(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	owner := e.Run(t, dockertest.RunOptions{Name: "owner", Network: "apart"})
	id := e.Run(t, dockertest.RunOptions{Name: "beside", Labels: livenessLabels("tcp_socket.port", "8080"), Network: "apart"})
	h := startImaged(t, e, "guest", &container.Config{}, &container.HostConfig{
		Binds:       []string{strings.TrimPrefix(e.Endpoint, "unix://") + ":/var/run/docker.sock"},
		NetworkMode: container.NetworkMode("container:" + owner), CgroupnsMode: "host",
	})
	h.until("beside", "alive", liveness("Success", ""))
	noWait := 0
	if err := e.Client().ContainerRestart(t.Context(), owner, container.StopOptions{Timeout: &noWait}); err != nil {
		t.Fatal(err)
	}
	s := h.until("beside", "unreached", func(s harness.Status) bool {
		return strings.Contains(s.Probes["liveness"].Output, "healthd has lost its address in the network apart: restart its own container (guest)")
	})
	if s.RestartCount != 0 || s.State.Running == nil {
		t.Errorf("healthd lost its network, and of a container the status is %+v", s)
	}
	e.Remove(t, h.id)
	e.Remove(t, id)
}

func imageSaysWhatItCannot(t *testing.T, h *imaged) {
	t.Helper()
	log := h.logs()
	page, err := os.ReadFile("../../docs/container.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```text\n")
	said, _, _ := strings.Cut(rest, "\n```\n")
	if strings.Count(said, "\n") < 4 {
		t.Fatalf("docs/container.md quotes %q", said)
	}
	for want := range strings.SplitSeq(said, "\n") {
		if quoted := strconv.Quote(want); strings.Count(log, quoted[1:len(quoted)-1]) != 1 {
			t.Errorf("the log has %q %d times", want, strings.Count(log, want))
		}
	}
	table, code := h.exec("/healthd", "status", "--all")
	for _, want := range []string{
		"healthd is not supervised: healthd itself runs in it, and could not start it again after a stop",
		"warning: far: its liveness probe cannot run: it is in the network apart, and healthd's own container (healthd) is not: connect that to apart, or run healthd with --network=host",
		"warning: commanded: healthd cannot end a command that hangs in its liveness probe: healthd's own container (healthd) needs --pid=host",
	} {
		if !strings.Contains(table, want) || code != 0 {
			t.Errorf("status --all: exit code %d, no %q in\n%s", code, want, table)
		}
	}
	if out, code := h.exec("/healthd", "check", "--container", "healthd"); code != 0 || !strings.Contains(out, "healthd itself runs in it") {
		t.Errorf("check --container healthd: exit code %d\n%s", code, out)
	}
	if out, code := h.exec("/healthd", "check"); code != 0 || !strings.Contains(out, "no file: there is neither /etc/healthd/healthd.toml") {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
}

// imageInAnIsolatedNetwork shares a network with a container, which it does not reach.
func imageInAnIsolatedNetwork(t *testing.T, h *imaged) {
	t.Helper()
	made, err := h.engine.Client().NetworkCreate(t.Context(), "isolated", network.CreateOptions{
		Driver: "bridge", Options: map[string]string{"com.docker.network.bridge.enable_icc": "false"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.engine.Client().NetworkRemove(context.WithoutCancel(t.Context()), made.ID) })
	if err := h.engine.Client().NetworkConnect(t.Context(), "isolated", h.id, &network.EndpointSettings{}); err != nil {
		t.Fatal(err)
	}
	id := h.engine.Run(t, dockertest.RunOptions{Name: "alone", Labels: livenessLabels("tcp_socket.port", "8080"), Network: "isolated"})
	h.until("alone", "not reached", liveness("Unknown", "containers of the network isolated do not reach each other (icc=false)"))
	h.engine.Remove(t, id)
	if err := h.engine.Client().NetworkDisconnect(t.Context(), "isolated", h.id, false); err != nil {
		t.Fatal(err)
	}
}

// imageFollowsItsNetworks connects healthd to the network of far and disconnects it again.
func imageFollowsItsNetworks(t *testing.T, h *imaged, far string) {
	t.Helper()
	if err := h.engine.Client().NetworkConnect(t.Context(), "apart", h.id, &network.EndpointSettings{}); err != nil {
		t.Fatal(err)
	}
	h.until("far", "reached", liveness("Success", ""))
	if err := h.engine.Client().NetworkDisconnect(t.Context(), "apart", h.id, false); err != nil {
		t.Fatal(err)
	}
	unreached := func(s harness.Status) bool {
		return strings.Contains(s.Probes["liveness"].Output, "it is in the network apart")
	}
	h.until("far", "unreached again", unreached)
	hangUp(t, h.engine, far)
	first := h.until("far", "probed", func(harness.Status) bool { return true }).Probes["liveness"].LastProbeTime
	s := h.until("far", "probed five times more", func(s harness.Status) bool { return s.Probes["liveness"].LastProbeTime.Sub(first) > time.Second })
	if !unreached(s) || s.Probes["liveness"].Outcome == "Failure" || s.RestartCount != 0 || s.State.Running == nil {
		t.Errorf("a container that is not reached: %+v", s)
	}
}
