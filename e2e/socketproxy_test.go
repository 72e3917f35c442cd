package e2e

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// documentedRequests returns what docs/runtimes.md tells operators to allow in a socket proxy,
// as patterns of "METHOD /path".
func documentedRequests(t *testing.T) []*regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../docs/runtimes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "**Socket proxy.**")
	section, _, _ := strings.Cut(rest, "\n\n")
	var all []*regexp.Regexp
	for _, quoted := range regexp.MustCompile("`((?:GET|HEAD|POST) [^`]*)`").FindAllStringSubmatch(section, -1) {
		words := strings.Fields(quoted[1])
		for _, path := range words[1:] {
			choice := strings.NewReplacer("*", "[^/]+", "{", "(", "}", ")", ",", "|").Replace(path)
			all = append(all, regexp.MustCompile("^"+words[0]+" "+choice+"$"))
		}
	}
	if !ok || len(all) < 5 {
		t.Fatalf("found %v in the documentation", all)
	}
	return all
}

// Through a socket proxy that allows what the documentation says and nothing else, everything works.
func TestSocketProxy(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	p := startProxy(t, e)
	documented := documentedRequests(t)
	var mu sync.Mutex
	asked, refused := map[int]bool{}, map[string]bool{}
	p.allow = func(call string) bool {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(documented, func(r *regexp.Regexp) bool { return r.MatchString(call) })
		if asked[i] = true; i < 0 {
			refused[call] = true
		}
		return i >= 0
	}
	d := startBehindProxy(t, p, `
[[spec]]
name = "proxied"
match = { e2e = "proxied" }
backoff = { initial = "100ms", max = "100ms" }
lifecycle = { pre_stop = { exec = { command = ["true"] } } }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "200ms"
timeout = "5s"
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
[spec.startup]
engine_health = {}
period = "200ms"
`)
	id := e.Run(t, dockertest.RunOptions{Name: "proxied", Labels: map[string]string{"e2e": "proxied"}, Health: &container.HealthConfig{Test: []string{"CMD", "true"}, Interval: time.Second}})
	d.until(40*time.Second, "proxied", "ready", ready)
	inside(t, e, id, "touch", "/sick")
	d.until(30*time.Second, "proxied", "restarted", func(s status) bool { return s.RestartCount >= 1 })
	inside(t, e, id, "rm", "-f", "/sick")
	d.until(40*time.Second, "proxied", "ready again", ready)
	d.endProcess(e, id)
	d.until(40*time.Second, "proxied", "ready after a crash", func(s status) bool { return s.Ready && s.RestartCount >= 2 })
	e.StopByOperator(t, id)
	d.until(20*time.Second, "proxied", "stopped by the operator", byOperator)
	e.Stop(t)
	d.eventually(20*time.Second, "notice that the engine is gone", func() error { return d.runtimeUp("0") })
	e.Up(t)
	d.eventually(30*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	d.stays(time.Second, "proxied", "stopped", byOperator)
	mu.Lock()
	defer mu.Unlock()
	if len(refused) > 0 {
		t.Errorf("healthd asked for %v", slices.Collect(maps.Keys(refused)))
	}
	for i, r := range documented {
		// These two are asked when the engine's history does not tell whether it was restarted.
		rare := r.MatchString("GET /info") || r.MatchString("GET /networks/bridge")
		if !asked[i] && !rare {
			t.Errorf("healthd never asked for %s", r)
		}
	}
}
