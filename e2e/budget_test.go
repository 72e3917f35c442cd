package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

const budgetSpec = `
[guard]
max_restarts = 1
window = "4s"
[[spec]]
name = "budget"
match = { e2e = "budget" }
[spec.startup]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
timeout = "5s"
failure_threshold = 1000
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
timeout = "5s"
failure_threshold = 1
`

func waitsFor(reason string) func(status) bool {
	return func(s status) bool { return s.State.Waiting != nil && s.State.Waiting.Reason == reason }
}

// Unrelated containers fail at once: one is restarted, the others wait for the host's
// restart budget, and all are restarted in the end. A crash does not wait.
func TestRestartBudget(t *testing.T) {
	t.Parallel()
	const window = 4 * time.Second
	e := engines.Engine(t)
	d := startDaemon(t, e.Endpoint, budgetSpec)
	ids := map[string]string{}
	run := func(name string) {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "budget"}})
		d.until(20*time.Second, name, "ready", ready)
	}
	names := []string{"budget-1", "budget-2", "budget-3"}
	for _, name := range names {
		run(name)
	}
	run("budget-crash")
	for _, name := range names {
		set(t, e, ids[name], "status=500")
	}
	var waiting []string
	d.eventually(10*time.Second, "let two of three wait", func() error {
		waiting = nil
		for _, name := range names {
			if s, err := d.status(name); err == nil && waitsFor("RestartBudget")(s) {
				waiting = append(waiting, name)
			}
		}
		if len(waiting) != 2 {
			return fmt.Errorf("%v wait", waiting)
		}
		return nil
	})
	out, code := d.run("status")
	if want := "failed liveness probe, its restart waits for the host's budget of 1 restarts in 4s"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("status: exit code %d, want %q in\n%s", code, want, out)
	}
	d.endProcess(e, ids["budget-crash"])
	d.until(5*time.Second, "budget-crash", "started again", restarted(1))
	for _, name := range names {
		d.until(30*time.Second, name, "restarted once it is its turn", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	}
	d.checkBudget(window, names...)
}

// checkBudget checks that the restarts were at least a window apart, one for each container,
// and that one event said why.
func (d *daemon) checkBudget(window time.Duration, names ...string) {
	d.t.Helper()
	var last time.Time
	kills, budgetEvents := 0, 0
	for _, ev := range d.events("") {
		switch ev.Reason {
		case "Killing":
			if apart := ev.Time.Sub(last); kills > 0 && apart < window {
				d.t.Errorf("%s was restarted %v after the one before, want %v at least", ev.Container, apart, window)
			}
			kills, last = kills+1, ev.Time
		case "RestartBudget":
			budgetEvents++
			if ev.Container != "" || !strings.Contains(ev.Message, "1 restarts for failed probes within 4s") {
				d.t.Errorf("event %+v", ev)
			}
		}
	}
	if kills != len(names) || budgetEvents != 1 {
		d.t.Errorf("%d restarts, want %d; %d events of the budget, want 1", kills, len(names), budgetEvents)
	}
}
