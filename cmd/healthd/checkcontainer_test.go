package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
)

// dockerWith is an engine that has these containers, by their names, with their labels.
func dockerWith(t *testing.T, containers map[string]map[string]string) (endpoint string) {
	t.Helper()
	state := map[string]any{"Status": "running", "Pid": 7, "StartedAt": "2026-01-02T03:04:05Z"}
	network := map[string]any{"Networks": map[string]any{"bridge": map[string]any{"IPAddress": "172.17.0.2"}, "front": map[string]any{"IPAddress": "172.18.0.2"}}}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		var answer any = map[string]any{}
		name := path.Base(path.Dir(r.URL.Path))
		labels, known := containers[strings.TrimSuffix(name, "-id")]
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			listed := []any{}
			for name, labels := range containers {
				listed = append(listed, map[string]any{"Id": name + "-id", "Names": []string{"/" + name}, "Image": "web:1", "State": "running", "Labels": labels})
			}
			answer = listed
		case strings.HasSuffix(r.URL.Path, "/json") && known && labels["gone"] == "":
			answer = map[string]any{
				"Id": name, "Name": "/" + strings.TrimSuffix(name, "-id"), "Config": map[string]any{"Image": "web:1", "Labels": labels, "StopTimeout": 60}, "State": state,
				"HostConfig": map[string]any{"NetworkMode": "bridge", "RestartPolicy": map[string]any{"Name": "always"}}, "NetworkSettings": network,
			}
		case strings.HasSuffix(r.URL.Path, "/json"):
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

// checkOn writes a configuration for an engine, and returns how it judges a container.
func checkOn(t *testing.T, endpoint, specs string) func(name string) (result, string) {
	t.Helper()
	config := write(t, "healthd.toml", fmt.Sprintf("[[runtime]]\nendpoint = %q\n%s", endpoint, specs))
	return func(name string) (result, string) {
		got := inside("check", "--container", name, "--config", config)
		got.stdout = strings.ReplaceAll(got.stdout, config, "/healthd.toml")
		return got, strings.Join(strings.Fields(got.stdout), " ")
	}
}

func TestCheckOfAContainer(t *testing.T) {
	const compose = "com.docker.compose."
	check := checkOn(t, dockerWith(t, map[string]map[string]string{
		"shop-web-1": {compose + "project": "shop", compose + "service": "web", "app": "web", "healthd.readiness.period": "2s"},
		"db":         {"healthd.liveness.tcp_socket.port": "5432"},
		"other":      {"app": "other"},
		"wrong":      {"app": "web", "healthd.liveness.period": "so\x1bon"},
		"removed":    {"gone": "yes"},
	}), "[[spec]]\nname = \"web\"\nmatch = { app = \"web\" }\ntermination_grace_period = \"10s\"\n[spec.readiness]\nexec = { command = [\"true\"] }\n"+
		"[spec.liveness]\nexec = { command = [\"true\"] }\nfailure_threshold = 30\n")

	got, _ := check("shop-web-1")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	golden(t, "check-container.txt", got.stdout)
	for name, want := range map[string]string{
		"db":         "spec none; labels only service db group db restarts policy Always; after exits the engine's own, always",
		"id:db-id":   "liveness.tcp_socket.port 5432 label healthd.liveness.tcp_socket.port",
		"docker:db":  "liveness.period \"10s\" default",
		"other":      `other is not supervised: healthd leaves it alone`,
		"other-id":   "spec web (/healthd.toml:3): its label app is \"other\", not web Next: ",
		"shop-web-1": "warning its own stop timeout is 1m0s, but healthd gives it only 10s after a failed liveness probe",
	} {
		if got, said := check(name); got.code != 0 || !strings.Contains(said, want) || got.stderr != "" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"wrong":   "cannot supervise wrong: wrong labels",
		"dbb":     "cannot check dbb: no container has that name or ID: did you mean db?",
		"nothing": "cannot check nothing: no container has that name or ID",
		"removed": "cannot check removed: it was removed just now",
	} {
		got, said := check(name)
		if got.code != 1 || got.stderr != "healthd: "+want+"\n" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
		if name == "wrong" != strings.HasPrefix(said, `wrong (docker, web:1) spec none: label healthd.liveness.period: must be a duration`) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Without the engine nothing is known, and that is said.
func TestCheckOfAContainerWithoutAnEngine(t *testing.T) {
	check := checkOn(t, "unix:///nonexistent/docker.sock", "")
	if got, _ := check("web"); got.code != 1 || got.stdout != "" ||
		!strings.HasPrefix(got.stderr, "healthd: cannot check web: no container has that name or ID (the containers of an engine are not known: docker: ") {
		t.Errorf("%+v", got)
	}
	check = checkOn(t, "unix:///nonexistent/docker.sock", "a = 1\n")
	if got, _ := check("web"); got.code != 1 || !strings.Contains(got.stderr, "healthd: cannot use the configuration: 1 problem\n") {
		t.Errorf("%+v", got)
	}
}

// A container is looked at in the network that its spec names, as the daemon does.
func TestCheckOfAContainerInItsNetwork(t *testing.T) {
	check := checkOn(t, dockerWith(t, map[string]map[string]string{
		"chosen": {"healthd.liveness.tcp_socket.port": "80", "healthd.network": "front"},
		"absent": {"healthd.liveness.tcp_socket.port": "80", "healthd.network": "back"},
		"either": {"healthd.liveness.tcp_socket.port": "80"},
	}), "")
	for name, want := range map[string]string{
		"chosen": "", "absent": "it is not in the network back, which its spec names, but in bridge, front:", "either": "it is in several networks (bridge, front),",
	} {
		got, said := check(name)
		if got.code != 0 || !strings.Contains(said, want) || strings.Contains(said, "network back") != (name == "absent") ||
			strings.Contains(said, "not in the network") != (name == "absent") || strings.Contains(said, "several networks") != (name == "either") {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
}
