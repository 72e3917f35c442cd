package engines

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// What healthd leaves alone is shown to whoever asks, with the labels that each spec missed.
func whyNotSupervised(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "why-not"
match = { e2e = "why-not" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "30s" }
`)
	run := func(name string, labels map[string]string) {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	run("why-supervised", map[string]string{"e2e": "why-not"})
	run("why-other", map[string]string{"e2e": "why-mot"})
	run("why-off", map[string]string{"e2e": "why-not", "healthd.enable": "false"})
	run("why-oneoff", map[string]string{"e2e": "why-not", "com.docker.compose.oneoff": "True"})
	d.Until("why-supervised", "ready", harness.Ready)

	out, code := d.Run("status", "--all", "-o", "json")
	var all []harness.Status
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
		if out, _ := d.Run("explain", name); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("explain %s: %s\nwant %s", name, out, want)
		}
	}
	if _, err := d.Status("why-other"); err == nil {
		t.Error("the network is shown an unsupervised container")
	}
	if code, _, err := d.Get("/v1/unsupervised"); code != http.StatusNotFound {
		t.Errorf("the network is answered %d, %v", code, err)
	}
	if out, code := d.Run("explain", "why-othr"); code != 1 || !strings.Contains(out, "no container has that name or ID: did you mean why-other") {
		t.Errorf("explain of an unknown name: %d %s", code, out)
	}

	d.Rewrite(func(text string) string { return strings.Replace(text, `"why-not" }`, `"why-mot" }`, 1) })
	if out, code := d.Run("reload"); code != 0 {
		t.Fatalf("reload: %d %s", code, out)
	}
	d.Until("why-other", "ready", harness.Ready)
	if out, _ := d.Run("explain", "why-supervised"); !strings.Contains(out, `its label e2e is "why-not", not why-mot`) {
		t.Errorf("after a reload: %s", out)
	}
}

// Of a container, check says what a daemon does, beside one and without.
func checkContainer(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "check"
match = { e2e = "check" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "30s" }
`)
	for name, labels := range map[string]map[string]string{
		"check-good": {"e2e": "check", "healthd.readiness.period": "1s"}, "check-wrong": {"e2e": "check", "healthd.nope": "1"}, "check-other": {"e2e": "chek"},
	} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	d.Until("check-good", "ready", harness.Ready)
	for _, beside := range []bool{true, false} {
		for name, want := range map[string]struct {
			code int
			text []string
		}{
			"check-good":  {0, []string{" spec check, by match e2e=check (" + d.Config, "label healthd.readiness.period"}},
			"check-wrong": {1, []string{" spec none: label healthd.nope: ", "healthd: cannot supervise check-wrong: wrong labels"}},
			"check-other": {0, []string{"check-other is not supervised", `its label e2e is "chek", not check`}},
			"check-othr":  {1, []string{"no container has that name or ID: did you mean check-other"}},
		} {
			out, code := d.Run("check", "--container", name)
			said := strings.Join(strings.Fields(out), " ")
			for _, text := range want.text {
				if code != want.code || !strings.Contains(said, text) {
					t.Errorf("%s, beside a daemon %v: %d %s, want %d %s", name, beside, code, out, want.code, text)
				}
			}
		}
		if beside {
			if err := d.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
