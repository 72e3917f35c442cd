package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"healthd/configs"
)

// imported runs an import, and checks that what it prints is a configuration.
func imported(t *testing.T, args ...string) result {
	t.Helper()
	got := inside(append([]string{"import"}, args...)...)
	if _, err := configs.Parse("imported.toml", []byte(got.stdout)); err != nil {
		t.Errorf("%v: %v:\n%s", args, err, got.stdout)
	}
	return got
}

const somePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n    livenessProbe: {httpGet: {port: 8080}, nope: 1}\n"

func TestImportOfFiles(t *testing.T) {
	dir := filesIn(t, map[string]string{
		"pod.yaml": somePod, "two.yaml": strings.ReplaceAll(somePod, "name: web", "name: two"),
		"compose.yaml": "name: shop\nservices:\n  web:\n    image: web\n    restart: always\n    healthcheck: {test: [CMD, \"true\"]}\n",
		"web.hcl":      "job \"web\" {\n  group \"web\" {\n    task \"web\" {\n      driver = \"docker\"\n    }\n  }\n}\n",
		"broken.yaml":  "a: [1\nb: 2\n", "wrong.yaml": "a: b\n---\nc: d\n", "broken.hcl": "job {\n  x = \n}\n", "compose-broken.yaml": "services: [\n",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		args         []string
		stdout, last string
	}{
		{[]string{"kubernetes", in("pod.yaml"), in("two.yaml")}, "liveness", "2 specs; 2 settings could not be carried over: see the comments\n"},
		{[]string{"compose", in("compose.yaml")}, "engine_health", "1 spec\n"},
		{[]string{"nomad", in("web.hcl")}, "restart_policy", "1 spec\n"},
	} {
		got := imported(t, tt.args...)
		if got.code != 0 || !strings.HasSuffix(got.stderr, tt.last) || !strings.Contains(got.stdout, tt.stdout) {
			t.Errorf("%v: %+v", tt.args, got)
		}
	}
	for _, tt := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"kubernetes", in("broken.yaml"), in("pod.yaml"), in("wrong.yaml")}, "healthd: cannot import DIR/broken.yaml:1: did not find expected ',' or ']'\n" +
			"healthd: cannot import DIR/wrong.yaml:1: is no Kubernetes object: it has no kind\nhealthd: cannot import DIR/wrong.yaml:3: is no Kubernetes object: it has no kind\n"},
		{[]string{"nomad", in("broken.hcl")}, "healthd: cannot import DIR/broken.hcl:2: Invalid expression: "},
		{[]string{"nomad", in("none.hcl"), dir}, "healthd: cannot import DIR/none.hcl: no such file or directory\nhealthd: cannot import DIR: it is not a regular file\n"},
		{[]string{"compose", in("compose-broken.yaml"), in("compose.yaml")}, "healthd: cannot import the Compose file DIR/compose-broken.yaml: "},
		{[]string{"compose", in("none.yaml")}, "healthd: cannot import the Compose file DIR/none.yaml: no such file or directory\n"},
		{[]string{"compose", "https://example.invalid/c.yaml"}, "healthd: cannot import the Compose file https://example.invalid/c.yaml: https://example.invalid/c.yaml is not a local file"},
	} {
		got := imported(t, tt.args...)
		if got.stderr = strings.ReplaceAll(got.stderr, dir, "DIR"); got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, tt.stderr) {
			t.Errorf("%v: %+v, want %s", tt.args, got, tt.stderr)
		}
	}
}

// A pipe would keep its reader for ever, and a huge file takes memory: both are refused before they are read.
func TestImportOfNoUsualFile(t *testing.T) {
	dir := t.TempDir()
	pipe, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxImport+1); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"compose", "kubernetes", "nomad"} {
		for file, want := range map[string]string{pipe: ": it is not a regular file\n", huge: ": it is longer than 8 MiB: split it\n"} {
			if got := imported(t, source, file); got.code != 1 || !strings.HasSuffix(got.stderr, want) {
				t.Errorf("%s: %+v, want %s", source, got, want)
			}
		}
	}
}

func TestImportFromStdin(t *testing.T) {
	for source, text := range map[string]string{
		"kubernetes": somePod, "nomad": `{"Job": {"Name": "web", "TaskGroups": [{"Name": "web", "Tasks": [{"Name": "web", "Driver": "docker"}]}]}}`,
		"compose": "name: shop\nservices:\n  web:\n    image: web\n    healthcheck: {test: [CMD, \"true\"]}\n",
	} {
		cmd := program(t, "import", source, "-")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if _, wrong := configs.Parse("", out); err != nil || wrong != nil || !strings.Contains(string(out), "\n[[spec]]\n") {
			t.Errorf("%s: %v, %v: %s", source, err, wrong, out)
		}
	}
	for source, what := range map[string]string{"nomad": "-", "compose": "the Compose file -"} {
		cmd := program(t, "import", source, "-")
		cmd.Stdin = strings.NewReader(strings.Repeat("#", maxImport+1))
		if out, err := cmd.CombinedOutput(); err == nil || string(out) != "healthd: cannot import "+what+": it is longer than 8 MiB: split it\n" {
			t.Errorf("%s: %v: %s", source, err, out)
		}
	}
}

// dockerToImport is an engine with autoheal, a container with a HEALTHCHECK, and one that is removed once it is listed.
func dockerToImport(t *testing.T) (endpoint string) {
	t.Helper()
	config := map[string]map[string]any{
		"heal": {"Image": "willfarrell/autoheal:1", "Env": []string{"AUTOHEAL_INTERVAL=2", "WEBHOOK_URL=https://s3cret"}},
		"shop-web-1": {
			"Image": "web:1", "Labels": map[string]string{"com.docker.compose.project": "shop", "com.docker.compose.service": "web", "autoheal": "true"},
			"Healthcheck":  map[string]any{"Test": []string{"CMD", "true"}, "Interval": 1e9, "StartInterval": 2e9, "Retries": 2},
			"ExposedPorts": map[string]any{"8080/tcp": map[string]any{}, "53/udp": map[string]any{}}, "StopTimeout": 60,
		},
		"never":  {"Image": "x", "Healthcheck": map[string]any{"Test": []string{"NONE"}}},
		"silent": {"Image": "x"},
		"gone":   nil,
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		var answer any = map[string]any{}
		name := strings.TrimSuffix(path.Base(path.Dir(r.URL.Path)), "-id")
		switch c, known := config[name]; {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			listed := []any{}
			for name, c := range config {
				listed = append(listed, map[string]any{"Id": name + "-id", "Names": []string{"/" + name}, "Image": c["Image"], "State": "running", "Labels": c["Labels"]})
			}
			answer = listed
		case known && c != nil:
			answer = map[string]any{
				"Id": name + "-id", "Name": "/" + name, "Config": c, "State": map[string]any{"Status": "running", "StartedAt": "2026-01-02T03:04:05Z"},
				"HostConfig": map[string]any{"RestartPolicy": map[string]any{"Name": "on-failure", "MaximumRetryCount": 4}}, "NetworkSettings": map[string]any{},
			}
		case known:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]string{"message": "no such container"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(engine.Close)
	return "tcp://" + engine.Listener.Addr().String()
}

func TestImportOfContainers(t *testing.T) {
	config := write(t, "healthd.toml", "[[runtime]]\nendpoint = \""+dockerToImport(t)+"\"\n")
	got := imported(t, "docker", "--config", config)
	if got.code != 0 || got.stderr != "note: stop autoheal (heal) when healthd runs with these specs: two healers restart twice\n2 specs; 1 setting could not be carried over: see the comments\n" {
		t.Errorf("%+v", got)
	}
	golden(t, "import-docker.txt", got.stdout)
	if strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("a secret in %+v", got)
	}
	for name, want := range map[string]string{"shop": "shop-web", "shop/web": "shop-web", "shop-web-1": "shop-web", "silent": "silent", "id:silent-id": "silent"} {
		if got := imported(t, "docker", name, "--config", config); got.code != 0 || strings.Count(got.stdout, "[[spec]]") != 1 || strings.Count(got.stdout, "= \""+want+"\"\n") < 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, want := range map[string]string{
		"shop-wep": "cannot import shop-wep: no container has that name or ID: did you mean shop-web-1?\n",
		"gone":     "cannot import gone: it was removed just now\n",
	} {
		if got := imported(t, "docker", name, "--config", config); got.code != 1 || got.stdout != "" || got.stderr != "healthd: "+want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	again := write(t, "again.toml", "[[runtime]]\nendpoint = \""+dockerToImport(t)+"\"\n[[spec]]\nname = \"mine\"\nmatch_name = \"shop-*\"\nrestart_policy = \"Never\"\n")
	if got := imported(t, "docker", "shop", "--config", again); !strings.Contains(got.stdout, "# The configuration has a spec for it already: mine, by match_name shop-*") {
		t.Errorf("%+v", got)
	}
}

// What is not known is no reason to print a part.
func TestImportWithoutAnEngine(t *testing.T) {
	config := write(t, "healthd.toml", "[[runtime]]\nendpoint = \"unix:///nonexistent/docker.sock\"\n")
	got := imported(t, "docker", "--config", config)
	if got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, "healthd: cannot import the containers of docker: ") {
		t.Errorf("%+v", got)
	}
	bad := write(t, "bad.toml", "a = 1\n")
	if got := imported(t, "docker", "--config", bad); got.code != 1 || got.stdout != "" || !strings.HasSuffix(got.stderr, "healthd: cannot use the configuration: 1 problem\n") {
		t.Errorf("%+v", got)
	}
}
