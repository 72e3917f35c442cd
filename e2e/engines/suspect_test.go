package engines

import (
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
)

// Containers none of which answers are not restarted for a minute, and not at all when they answer again.
func TestNoContainerOfTheHostAnswers(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, `
[[spec]]
name = "suspect"
match = { e2e = "suspect" }
startup  = { tcp_socket = { port = 8080 }, period = "200ms", timeout = "30s", failure_threshold = 1000 }
liveness = { http_get = { port = 8080, path = "/healthz" }, period = "1s", timeout = "1s", failure_threshold = 3 }
`)
	names := []string{"suspect-1", "suspect-2", "suspect-3"}
	for _, name := range names {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "suspect"}})
		d.Until(name, "ready", harness.Ready)
	}
	for _, name := range names {
		harness.Set(t, e, name, "hang=1")
	}
	for _, name := range names {
		d.Until(name, "waiting", func(s harness.Status) bool { // or no longer, where a minute is soon over
			return s.State.Waiting != nil && s.State.Waiting.Reason == core.WaitHostSuspect || s.RestartCount > 0
		})
	}
	for _, name := range names {
		harness.Set(t, e, name, "hang=0")
	}
	for _, name := range names {
		d.Until(name, "well again", func(s harness.Status) bool {
			return s.Probes["liveness"].Outcome == "Success" && s.State.Waiting == nil
		})
	}
	var told []time.Time
	for _, ev := range d.Events("") {
		switch {
		case ev.Reason == core.WaitHostSuspect && ev.Container == "":
			told = append(told, ev.Time)
		case ev.Reason == "Killing" && (len(told) == 0 || ev.Time.Sub(told[len(told)-1]) < time.Minute):
			t.Errorf("%s was stopped at %v: %s; HostSuspect was told at %v", ev.Container, ev.Time, ev.Message, told)
		}
	}
	if len(told) == 0 {
		t.Error("nothing was told of it")
	}
}
