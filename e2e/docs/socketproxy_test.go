package docs

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

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// documentedRequests returns what docs/runtimes.md tells operators to allow in a socket proxy,
// as patterns of "METHOD /path".
func documentedRequests(t *testing.T) []*regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../../docs/runtimes.md")
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
	p := harness.StartProxy(t, e)
	documented := documentedRequests(t)
	var mu sync.Mutex
	asked, refused := map[int]bool{}, map[string]bool{}
	keepsStops := false // the proxy allows none any more
	p.Allow = func(call string) bool {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(documented, func(r *regexp.Regexp) bool { return r.MatchString(call) })
		if asked[i] = true; i < 0 {
			refused[call] = true
		}
		return i >= 0 && !(keepsStops && strings.HasSuffix(call, "/stop"))
	}
	d := harness.StartBehindProxy(t, p, `
[[spec]]
name = "proxied"
match = { e2e = "proxied" }
backoff = { initial = "100ms", max = "100ms" }
lifecycle = { pre_stop = { exec = { command = ["true"] } } }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "200ms"
timeout = "30s"
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
[spec.startup]
engine_health = {}
period = "200ms"
`)
	id := e.Run(t, dockertest.RunOptions{Name: "proxied", Labels: map[string]string{"e2e": "proxied"}, Health: &container.HealthConfig{Test: []string{"CMD", "true"}, Interval: time.Second}})
	d.Until("proxied", "ready", harness.Ready)
	if out, code := d.Run("check"); code != 0 || strings.Contains(out, "does not allow") {
		t.Errorf("check: exit code %d: %s", code, out)
	}
	harness.Inside(t, e, id, "touch", "/sick")
	d.Until("proxied", "restarted", func(s harness.Status) bool { return s.RestartCount >= 1 })
	harness.Inside(t, e, id, "rm", "-f", "/sick")
	d.Until("proxied", "ready again", harness.Ready)
	d.EndProcess(e, id)
	d.Until("proxied", "ready after a crash", func(s harness.Status) bool { return s.Ready && s.RestartCount >= 2 })
	e.StopByOperator(t, id)
	d.Until("proxied", "stopped by the operator", harness.ByOperator)
	e.Stop(t)
	d.Eventually("notice that the engine is gone", func() error { return d.RuntimeUp("0") })
	mu.Lock()
	keepsStops = true
	mu.Unlock()
	e.Up(t)
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	d.Stays(time.Second, "proxied", "stopped", harness.ByOperator)
	if out, _ := d.Run("status"); !strings.Contains(out, "does not allow POST /containers/*/stop") {
		t.Errorf("status after a connection through a proxy that forbids stops:\n%s", out)
	}
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
