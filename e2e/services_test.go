package e2e

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// Two Compose projects with a service of one name have two services. A third party that names
// another project's service, by label, is not taken into it.
func servicesOfProjects(t *testing.T, e engine) {
	d := startDaemonOn(t, e, `
[[spec]]
name = "compose"
match = { "com.docker.compose.project" = "e2e-*" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "5s" }
`)
	run := func(name, project string, more ...string) {
		labels := map[string]string{"com.docker.compose.project": project, "com.docker.compose.service": "web", "com.docker.compose.container-number": "1"}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	run("e2e-shop-web-1", "e2e-shop")
	d.until(20*time.Second, "e2e-shop-web-1", "ready", ready)
	d.eventually(5*time.Second, "answer to the short name", answers(d, "/v1/services/web/ready", http.StatusOK, "ready\n"))

	run("e2e-blog-web-1", "e2e-blog")
	run("e2e-evil-web-1", "e2e-evil", "healthd.publish.service", "e2e-shop/web")
	run("e2e-other-1", "e2e-blog", "healthd.publish.service", "edge")
	d.until(20*time.Second, "e2e-blog-web-1", "ready", ready)
	d.until(20*time.Second, "e2e-other-1", "ready", ready)
	d.until(20*time.Second, "e2e-evil-web-1", "invalid", func(s status) bool {
		return strings.Contains(s.Invalid, `"e2e-shop/web" cannot be set by a label`)
	})
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/v1/services/web/ready":                {http.StatusServiceUnavailable, "not ready: AmbiguousService: e2e-blog/web, e2e-shop/web\n"},
		"/v1/services/e2e-shop/web/ready":       {http.StatusOK, "ready\n"},
		"/v1/services/e2e-shop/web/ready?min=2": {http.StatusServiceUnavailable, "not ready: 1 of 1 endpoints ready, 2 needed\n"},
		"/v1/services/e2e-blog/edge/ready":      {http.StatusOK, "ready\n"},
		"/v1/services/edge/ready":               {http.StatusOK, "ready\n"},
		"/v1/ready/web/e2e-shop-web-1":          {http.StatusOK, "ready\n"},
		"/v1/ready/e2e-blog/web/e2e-shop-web-1": {http.StatusServiceUnavailable, "not ready: OtherService\n"},
	} {
		if err := answers(d, path, want.code, want.body)(); err != nil {
			t.Error(err)
		}
	}
	const line = `healthd_container_ready{container="e2e-blog-web-1",project="e2e-blog",service="e2e-blog/web"} 1` + "\n"
	if _, metrics, err := d.get("/metrics"); err != nil || !strings.Contains(metrics, line) {
		t.Errorf("no metric %s (%v)", line, err)
	}
}

// answers says what is wrong with the answer to a request; nil: nothing.
func answers(d *daemon, path string, code int, body string) func() error {
	return func() error {
		got, text, err := d.get(path)
		if err == nil && (got != code || text != body) {
			err = errors.New(path + " answers " + http.StatusText(got) + ": " + text)
		}
		return err
	}
}
