package engines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const budgetSpec = `
[guard]
max_restarts = 1
window = "10s"
[[spec]]
name = "budget"
match = { e2e = "budget" }
[spec.startup]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
timeout = "30s"
failure_threshold = 1000
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
timeout = "30s"
failure_threshold = 1
`

// Unrelated containers fail at once: one is restarted, the others wait for the host's
// restart budget, and all are restarted in the end. A crash does not wait.
func TestRestartBudget(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	const window = 10 * time.Second // longer than a busy machine takes until all three have failed
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, budgetSpec)
	ids := map[string]string{}
	run := func(name string) {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "budget"}})
		d.Until(name, "ready", harness.Ready)
	}
	names := []string{"budget-1", "budget-2", "budget-3"}
	for _, name := range names {
		run(name)
	}
	run("budget-crash")
	for _, name := range names {
		harness.Set(t, e, ids[name], "status=500")
	}
	var waiting []string
	d.Eventually("let two of three wait", func() error {
		waiting = nil
		for _, name := range names {
			if s, err := d.Status(name); err == nil && harness.WaitsFor("RestartBudget")(s) {
				waiting = append(waiting, name)
			}
		}
		if len(waiting) != 2 {
			return fmt.Errorf("%v wait", waiting)
		}
		return nil
	})
	out, code := d.Run("status")
	if want := "Failed liveness probe, its restart waits for the host's budget of 1 restarts in 10s"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("status: exit code %d, want %q in\n%s", code, want, out)
	}
	d.EndProcess(e, ids["budget-crash"])
	d.Until("budget-crash", "started again", harness.Restarted(1))
	for _, name := range names {
		d.Until(name, "restarted once it is its turn", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	}
	checkBudget(d, window, names...)
}

// checkBudget checks that the restarts were at least a window apart, one for each container,
// and that one event said why.
func checkBudget(d *harness.Daemon, window time.Duration, names ...string) {
	d.T.Helper()
	var last time.Time
	kills, budgetEvents := 0, 0
	for _, ev := range d.Events("") {
		switch ev.Reason {
		case "Killing":
			if apart := ev.Time.Sub(last); kills > 0 && apart < window {
				d.T.Errorf("%s was restarted %v after the one before, want %v at least", ev.Container, apart, window)
			}
			kills, last = kills+1, ev.Time
		case "RestartBudget":
			budgetEvents++
			if ev.Container != "" || !strings.Contains(ev.Message, "1 restarts for failed probes within 10s") {
				d.T.Errorf("event %+v", ev)
			}
		}
	}
	if kills != len(names) || budgetEvents != 1 {
		d.T.Errorf("%d restarts, want %d; %d events of the budget, want 1", kills, len(names), budgetEvents)
	}
}
