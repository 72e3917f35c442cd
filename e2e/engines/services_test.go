package engines

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// Two Compose projects with a service of one name have two services. A third party that names
// another project's service, by label, is not taken into it.
func servicesOfProjects(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "compose"
match = { "com.docker.compose.project" = "e2e-*" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "30s" }
`)
	run := func(name, project string, more ...string) {
		labels := map[string]string{"com.docker.compose.project": project, "com.docker.compose.service": "web", "com.docker.compose.container-number": "1"}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	run("e2e-shop-web-1", "e2e-shop")
	d.Until("e2e-shop-web-1", "ready", harness.Ready)
	d.Eventually("answer to the short name", answers(d, "/v1/services/web/ready", http.StatusOK, "ready\n"))

	run("e2e-blog-web-1", "e2e-blog")
	run("e2e-evil-web-1", "e2e-evil", "healthd.publish.service", "e2e-shop/web")
	run("e2e-other-1", "e2e-blog", "healthd.publish.service", "edge")
	d.Until("e2e-blog-web-1", "ready", harness.Ready)
	d.Until("e2e-other-1", "ready", harness.Ready)
	d.Until("e2e-evil-web-1", "invalid", func(s harness.Status) bool {
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
	if _, metrics, err := d.Get("/metrics"); err != nil || !strings.Contains(metrics, line) {
		t.Errorf("no metric %s (%v)", line, err)
	}
}

// A hold of a service or a project is one of each of its containers, and of no other one.
func holdServicesAndProjects(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "held"
match = { "com.docker.compose.project" = "holding*" }
liveness = { tcp_socket = { port = 8080 } }
`)
	names := map[string]string{"held-a-web": "holding-a front", "held-a-db": "holding-a store", "held-b-web": "holding-b front"}
	for name, of := range names {
		project, service, _ := strings.Cut(of, " ")
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"com.docker.compose.project": project, "com.docker.compose.service": service}})
	}
	for name := range names {
		d.Until(name, "there", func(s harness.Status) bool { return s.Spec == "held" })
	}
	for _, tt := range []struct {
		args string
		code int
		said string
		held string // afterwards
	}{
		{"hold holding-a", 0, "held-a-db: held\nheld-a-web: held\n", "held-a-db held-a-web"},
		{"resume store", 0, "held-a-db: no longer held\n", "held-a-web"},
		{"resume holding-a/front nope", 1, "held-a-web: no longer held\n", ""},
		{"hold front", 1, "several services have that name: holding-a/front, holding-b/front", ""},
		{"hold --for 10m held-b-web holding-a/store", 0, "held-b-web: held for 10m0s\nheld-a-db: held for 10m0s\n", "held-a-db held-b-web"},
		{"resume --all", 0, "held-b-web: no longer held\n", ""},
		{"hold --all", 0, "held-a-web: held\n", "held-a-db held-a-web held-b-web"},
	} {
		out, code := d.Run(strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out, tt.said) {
			t.Errorf("%s: exit code %d\n%s\nwant %d, %s", tt.args, code, out, tt.code, tt.said)
		}
		var held []string
		for name := range names {
			if s, err := d.Status(name); err != nil || s.Held {
				held = append(held, name)
			}
		}
		slices.Sort(held)
		if got := strings.Join(held, " "); got != tt.held {
			t.Errorf("after %s: %q is held, want %q", tt.args, got, tt.held)
		}
	}
	if out, code := d.Run("status", "holding-a/front", "store", "-o", "name"); code != 0 || out != "held-a-web\nheld-a-db\n" {
		t.Errorf("status: %d %s", code, out)
	}
}

// answers says what is wrong with the answer to a request; nil: nothing.
func answers(d *harness.Daemon, path string, code int, body string) func() error {
	return func() error {
		got, text, err := d.Get(path)
		if err == nil && (got != code || text != body) {
			err = errors.New(path + " answers " + http.StatusText(got) + ": " + text)
		}
		return err
	}
}
