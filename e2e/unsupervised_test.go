package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// What healthd leaves alone is shown to whoever asks, with the labels that each spec missed.
func whyNotSupervised(t *testing.T, e engine) {
	d := startDaemonOn(t, e, `
[[spec]]
name = "why-not"
match = { e2e = "why-not" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "5s" }
`)
	run := func(name string, labels map[string]string) {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	run("why-supervised", map[string]string{"e2e": "why-not"})
	run("why-other", map[string]string{"e2e": "why-mot"})
	run("why-off", map[string]string{"e2e": "why-not", "healthd.enable": "false"})
	run("why-oneoff", map[string]string{"e2e": "why-not", "com.docker.compose.oneoff": "True"})
	d.until(20*time.Second, "why-supervised", "ready", ready)

	out, code := d.run("status", "--all", "-o", "json")
	var all []status
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		t.Fatalf("%d %v: %s", code, err, out)
	}
	reasons := map[string]string{}
	for _, s := range all {
		reasons[s.Name] = s.Unsupervised
	}
	for name, want := range map[string]string{
		"why-supervised": "",
		"why-other":      `): its label e2e is "why-mot", not why-not`,
		"why-off":        `it has the label healthd.enable="false"`,
		"why-oneoff":     "docker compose run made it for one command, and it has no label healthd.enable=true",
	} {
		got, ok := reasons[name]
		if !ok || !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s is listed %v, unsupervised: %q, want %q", name, ok, got, want)
		}
		if out, _ := d.run("explain", name); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("explain %s: %s\nwant %s", name, out, want)
		}
	}
	if _, err := d.status("why-other"); err == nil {
		t.Error("the network is shown an unsupervised container")
	}
	if code, _, err := d.get("/v1/unsupervised"); code != http.StatusNotFound {
		t.Errorf("the network is answered %d, %v", code, err)
	}
	if out, code := d.run("explain", "why-othr"); code != 1 || !strings.Contains(out, "no container has that name or ID: did you mean why-other") {
		t.Errorf("explain of an unknown name: %d %s", code, out)
	}

	d.rewrite(func(text string) string { return strings.Replace(text, `"why-not" }`, `"why-mot" }`, 1) })
	if out, code := d.run("reload"); code != 0 {
		t.Fatalf("reload: %d %s", code, out)
	}
	d.until(20*time.Second, "why-other", "ready", ready)
	if out, _ := d.run("explain", "why-supervised"); !strings.Contains(out, `its label e2e is "why-not", not why-mot`) {
		t.Errorf("after a reload: %s", out)
	}
}
