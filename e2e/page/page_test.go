package page

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/api/page/chromiumtest"
)

const pageSpec = `
[[spec]]
name = "page"
match = { e2e = "page" }
[spec.readiness]
exec = { command = ["sh", "-c", "test -e /warm || { echo the cache is cold; exit 1; }"] }
period = "500ms"
timeout = "30s"
failure_threshold = 1
[spec.backoff]
initial = "1s"
`

// Somebody opens the page because something is wrong, sees what and why, mends it, and sees that it is over. Then the
// container crashes, and the page has the command that tells what it was doing.
func TestPageOfAnEngine(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t) // the page counts all containers, also those of other tests that have labels for healthd
	d := harness.StartDaemon(t, e.Endpoint, pageSpec)
	run := func(name, command string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "page"}, Cmd: []string{"sh", "-c", command + "exec sleep 4242"}})
	}
	run("page-well", "touch /warm; ")
	id := run("page-cold", "echo waits for the cache; ")
	d.Until("page-well", "ready", harness.Ready)
	d.Until("page-cold", "not ready", func(s harness.Status) bool { return s.Probes["readiness"].Outcome == "Failure" })

	b := chromiumtest.New(t, 1280, "light")
	b.ExpectErrors(true) // engines of other tests change the host's network: the page asks again
	b.Open(d.URL + "/")
	b.Says("#headline", "1 container not ready")
	b.Says("#problem-list", "the cache is cold")
	b.Says("#connection", "Live")
	b.Do(chromedp.Click("#problem-list a"))
	b.Says("#detail-name", "page-cold")
	b.Says("aside .state", "Not ready")
	b.Says("aside .probes", "the cache is cold")
	b.Says("aside .events", "Readiness probe failed")

	if code := e.Exec(t, id, "touch", "/warm"); code != 0 {
		t.Fatal(code)
	}
	b.Says("aside .state", "Ready")
	b.Says("#headline", "All 2 containers are ready")
	b.Until(`document.querySelector("#problems").hidden`)

	d.EndProcess(e, id)
	b.Says("aside .changes", "restarted: ended with signal 9")
	b.Says("aside .records", "run 1: crashed")
	command := b.Text("aside .records code")
	if command != "healthd why page-cold --run 1" {
		t.Fatalf("the page has the command %q", command)
	}
	if out, code := d.Run(strings.Fields(command)[1:]...); code != 0 || !strings.Contains(out, "waits for the cache") || !strings.Contains(out, "page-cold (docker, ") {
		t.Errorf("%s: exit code %d\n%s", command, code, out)
	}
	b.Says("#headline", "All 2 containers are ready")
	// The network is told that there is a record, and not what it says.
	if text := chromiumtest.Eval[string](b, `document.documentElement.textContent`); strings.Contains(text, "waits for the cache") {
		t.Error("the page has the log of the container")
	}
}
