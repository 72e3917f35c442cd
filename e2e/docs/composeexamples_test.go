package docs

import (
	"healthd/e2e/ports"

	"healthd/e2e/patience"

	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	composetypes "github.com/compose-spec/compose-go/v2/types"
	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const composeExamples = "../../configs/examples/compose"

// The Compose files are valid, and give healthd no more than they say.
func TestComposeExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(composeExamples + "/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		project, err := loader.LoadWithContext(t.Context(), composetypes.ConfigDetails{
			WorkingDir: composeExamples, ConfigFiles: []composetypes.ConfigFile{{Filename: file}},
		})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for name, s := range project.Services {
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Privileged || len(s.Ports) > 0 {
				t.Errorf("%s: %s has more rights than it needs", file, name)
			}
			for _, v := range s.Volumes {
				if v.Type == composetypes.VolumeTypeBind && strings.HasPrefix(v.Source, composeExamples) {
					if _, err := os.Stat(v.Source); err != nil {
						t.Errorf("%s: %s: %v", file, name, err)
					}
				}
			}
		}
		h := project.Services["healthd"]
		if h.Image != "healthd:latest" || h.StopGracePeriod == nil || time.Duration(*h.StopGracePeriod) <= 30*time.Second || !slices.ContainsFunc(h.Volumes, func(v composetypes.ServiceVolumeConfig) bool {
			return v.Type == composetypes.VolumeTypeVolume && v.Target == "/var/lib/healthd"
		}) {
			t.Errorf("%s: %+v", file, h)
		}
	}
}

// loadExample returns the healthd of a Compose file.
func loadExample(t *testing.T, name string) composetypes.ServiceConfig {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), composetypes.ConfigDetails{
		WorkingDir: composeExamples, ConfigFiles: []composetypes.ConfigFile{{Filename: filepath.Join(composeExamples, name)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return project.Services["healthd"]
}

// upService runs a service with the rights that the file gives it, and with these binds and volume.
func upService(t *testing.T, e *dockertest.Engine, s composetypes.ServiceConfig, volume string, binds ...string) *imaged {
	t.Helper()
	tmpfs := map[string]string{}
	for _, dir := range s.Tmpfs {
		tmpfs[dir] = ""
	}
	var env []string
	for name, value := range s.Environment {
		env = append(env, name+"="+*value)
	}
	t.Cleanup(func() { _ = e.Client().VolumeRemove(context.WithoutCancel(t.Context()), volume, true) })
	return startImaged(t, e, volume, &container.Config{User: s.User, Env: env}, &container.HostConfig{
		NetworkMode: container.NetworkMode(s.NetworkMode), PidMode: container.PidMode(s.Pid), CapAdd: s.CapAdd, CapDrop: s.CapDrop,
		SecurityOpt: s.SecurityOpt, ReadonlyRootfs: s.ReadOnly, Tmpfs: tmpfs, Binds: append(binds, volume+":/var/lib/healthd"),
	})
}

// imageServices runs healthd with the rights of the Compose files, one after the other, in the place of h. With those
// of the first, it asks inside a network, and ends a command of another user with all that it has started.
func imageServices(t *testing.T, e *dockertest.Engine, h *imaged) {
	t.Helper()
	e.StopByOperator(t, h.id)
	config := filepath.Join(t.TempDir(), "healthd.toml")
	text := fmt.Sprintf("[listen]\nhttp = %q\nagent = \"\"\n", ports.Address(t)) + `
[[spec]]
name = "lonely"
match_name = "lonely"
liveness = { exec = { command = ["sh", "-c", "(setsid sleep 1001 &); sleep 1002"] }, timeout = "500ms", period = "1h" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "1s" }
`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e.Remove(t, "onhost") // nobody listens there
	full := upService(t, e, loadExample(t, "healthd.yaml"), "hd-full", strings.TrimPrefix(e.Endpoint, "unix://")+":/var/run/docker.sock", config+":/etc/healthd/healthd.toml:ro")
	lonely := e.Run(t, dockertest.RunOptions{Name: "lonely", Network: "none", User: "65534:65534"})
	full.until("lonely", "asked inside its network", harness.Ready)
	full.until("lonely", "with a command that hung", liveness("Failure", "timed out"))
	if out, code := full.exec("healthd", "check", "--daemon"); code != 0 || strings.Contains(out, "--pid=host") {
		t.Errorf("check --daemon: exit code %d\n%s", code, out)
	}
	if log := full.logs(); strings.Contains(log, "cannot kill") || strings.Contains(log, "\"warning\"") {
		t.Errorf("with all rights it says: %s", log)
	}
	full.Eventually("kill all that the command has started", func() error {
		if e.Exec(t, lonely, "sh", "-c", "cat /proc/[0-9]*/cmdline | grep -q '[s]leep'") == 0 {
			return errors.New("sleep still runs")
		}
		return nil
	})
	e.Remove(t, full.id)

	behind := upService(t, e, loadExample(t, "healthd-socket-proxy.yaml"), "hd-behind", startSocketProxy(t, e)+":/run/socket-proxy/docker.sock")
	behind.until("near", "probed", liveness("Success", ""))
	if out, code := behind.exec("healthd", "live"); code != 0 {
		t.Errorf("live: exit code %d\n%s", code, out)
	}
	e.Remove(t, behind.id)
}

// startSocketProxy runs the proxy of the Compose file in front of e, and returns its socket.
func startSocketProxy(t *testing.T, e *dockertest.Engine) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(composeExamples, "socket-proxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hd-proxy") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, config := filepath.Join(dir, "docker.sock"), filepath.Join(dir, "haproxy.cfg")
	replaced := strings.NewReplacer("/run/socket-proxy/docker.sock", socket, "/var/run/docker.sock", strings.TrimPrefix(e.Endpoint, "unix://")).Replace(string(text))
	if err := os.WriteFile(config, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &harness.Buffer{}
	cmd := exec.Command(harness.FindHAProxy(t), "-db", "-f", config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the proxy:\n%s", log)
		}
	})
	patience.Until(t, "the proxy listens", func() error { _, err := os.Stat(socket); return err })
	return socket
}

// The proxy passes on the requests that the documentation lists, and no others; healthd heals through it.
func TestSocketProxyExample(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	socket := startSocketProxy(t, e)
	client := http.Client{Timeout: patience.Limit, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	passes := func(method, path string) bool {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		answer.Body.Close()
		return answer.StatusCode != http.StatusForbidden
	}
	documented := documentedRequests(t)
	documents := func(call string) bool {
		return slices.ContainsFunc(documented, func(r *regexp.Regexp) bool { return r.MatchString(call) })
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
		for _, path := range []string{
			"/_ping", "/info", "/events?until=1", "/networks/bridge", "/networks/none", "/networks", "/containers/json", "/containers/none/json", "/exec/none/json",
			"/containers/none/start", "/containers/none/stop", "/containers/none/exec", "/exec/none/start", "/containers/none", "/containers/none/kill", "/containers/none/restart",
			"/containers/none/archive", "/containers/none/logs", "/containers/none/update", "/containers/create", "/containers/prune", "/images/json", "/images/create", "/build", "/volumes", "/secrets",
			"/containers/a/b/json", "/containers/..%2f..%2fimages/json", "/info/../images/json", "/", "/v1.41", "/version",
		} {
			plain, _, _ := strings.Cut(path, "?")
			want := documents(method+" "+plain) || method == "HEAD" && documents("GET "+plain)
			if strings.Contains(path, "%") {
				want = false
			}
			for _, prefix := range []string{"", "/v1.41"} {
				if got := passes(method, prefix+path); got != want {
					t.Errorf("%s %s passes: %v, want %v", method, prefix+path, got, want)
				}
			}
		}
	}
	d := harness.StartDaemon(t, "unix://"+socket, `
[[spec]]
name = "behind"
match = { e2e = "behind" }
backoff = { initial = "100ms", max = "100ms" }
liveness = { exec = { command = ["sh", "-c", "! rm /sick"] }, period = "200ms", timeout = "30s", failure_threshold = 1 } # once
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms" }
`)
	id := e.Run(t, dockertest.RunOptions{Name: "behind", Labels: map[string]string{"e2e": "behind"}})
	d.Until("behind", "ready", harness.Ready)
	harness.Inside(t, e, id, "touch", "/sick")
	d.Until("behind", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })
	e.StopByOperator(t, id)
	d.Until("behind", "stopped by the operator", harness.ByOperator)
}
