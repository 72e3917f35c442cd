package docs

import (
	"healthd/e2e/ports"

	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// sdConfig lets Prometheus ask healthd for its targets. It asks these for /healthz, which does not have metrics.
const sdConfig = `
scrape_configs:
  - job_name: containers
    scrape_interval: 1s
    http_sd_configs:
      - url: %s/v1/discovery/prometheus
        refresh_interval: 1s
`

// Prometheus finds the containers by http_sd, with their labels, and keeps them while healthd is away.
func TestPrometheusDiscovery(t *testing.T) {
	t.Parallel()
	// Not the shared one: others' containers would be targets, too.
	e := dockertest.Start(t)
	specs := strings.Replace(fmt.Sprintf(harness.WebSpec, "found"), `service = "found"`, "", 1) // Compose may say which
	d := harness.StartDaemon(t, e.Endpoint, specs)
	prom := discoverWith(t, d.URL)
	prom.waitForTargets(d)
	labels := map[string]string{"e2e": "found"}
	e.Run(t, dockertest.RunOptions{Name: "found-1", Labels: labels})
	sick := e.Run(t, dockertest.RunOptions{Name: "found-2", Labels: labels, Cmd: []string{"/bin/testserver", "-status", "503"}})
	e.Run(t, dockertest.RunOptions{Name: "found-3", Labels: map[string]string{"e2e": "found", "com.docker.compose.project": "shop", "com.docker.compose.service": "web"}})
	for _, name := range []string{"found-1", "found-3"} {
		d.Until(name, "ready", harness.Ready)
	}
	target := func(name, project string, ready bool) string {
		s, err := d.Status(name)
		if err != nil {
			t.Fatal(err)
		}
		if project != "" { // an empty label is none
			project = " project=" + project
		}
		return fmt.Sprintf("%s:8080 container=%s job=containers%s ready=%v service=%s", s.Address, name, project, ready, s.Service)
	}
	one, three := target("found-1", "", true), target("found-3", "shop", true)
	prom.waitForTargets(d, one, target("found-2", "", false), three)
	e.Remove(t, sick)
	prom.waitForTargets(d, one, three)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	prom.waitForFailedRefresh(d)
	prom.waitForTargets(d, one, three)
}

// discoverWith starts a Prometheus that asks the healthd at an URL for its targets.
func discoverWith(t *testing.T, healthd string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), fmt.Appendf(nil, sdConfig, healthd), 0o600); err != nil {
		t.Fatal(err)
	}
	return runPrometheus(t, dir, ports.Address(t))
}

// waitForTargets waits until Prometheus has these targets: ADDRESS:PORT and the labels in order.
func (p *prometheus) waitForTargets(d *harness.Daemon, want ...string) {
	p.t.Helper()
	d.Eventually("be understood by Prometheus", func() error {
		var answer struct {
			ActiveTargets []struct{ Labels map[string]string }
		}
		if err := p.ask("/api/v1/targets", nil, &answer); err != nil {
			return err
		}
		var got []string
		for _, target := range answer.ActiveTargets {
			var labels []string
			for name, value := range target.Labels {
				if name != "instance" {
					labels = append(labels, name+"="+value)
				}
			}
			slices.Sort(labels)
			got = append(got, target.Labels["instance"]+" "+strings.Join(labels, " "))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has the targets\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}

// waitForFailedRefresh waits until Prometheus has asked in vain.
func (p *prometheus) waitForFailedRefresh(d *harness.Daemon) {
	p.t.Helper()
	failed := regexp.MustCompile(`(?m)^prometheus_sd_http_failures_total [1-9]`)
	d.Eventually("be missed by Prometheus", func() error {
		response, err := http.Get(p.url + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && !failed.Match(text) {
			err = errors.New("no request has failed")
		}
		return err
	})
}
