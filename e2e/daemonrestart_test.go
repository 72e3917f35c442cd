package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

// A container that had ended before healthd was first started is left alone: healthd cannot
// know why it ended. Once somebody starts it, it is supervised.
func TestContainerFoundStoppedIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	id := e.Run(t, dockertest.RunOptions{
		Name: "relic", Labels: map[string]string{"e2e": "relic"}, Cmd: []string{"sh", "-c", "test -e /seen && exec sleep 1000; touch /seen; exit 1"},
	})
	d := newDaemon(t, e.Endpoint, "[[spec]]\nname = \"relic\"\nmatch = { e2e = \"relic\" }\n")
	d.eventually(20*time.Second, "see it end", func() error { return ended(t, e, id) })
	d.start()
	d.until(20*time.Second, "relic", "failed", func(s status) bool { return s.Phase == "Failed" })
	d.stays(2*time.Second, "relic", "left alone", func(s status) bool { return s.Phase == "Failed" && s.RestartCount == 0 })
	d.checkFoundStopped("relic")
	if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	d.until(20*time.Second, "relic", "ready", ready)
	d.endProcess(e, id)
	d.until(20*time.Second, "relic", "started again", restarted(1))
}

const keptSpec = `
[[spec]]
name = "kept"
match = { e2e = "kept" }
[spec.startup]
exec = { command = ["test", "-e", "/up"] }
period = "500ms"
timeout = "5s"
failure_threshold = 1000
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "1s"
timeout = "5s"
failure_threshold = 3
`

// After a restart, healthd keeps the last readiness and started state of a run until its
// probes reach a verdict.
func TestReadyAndStartedSurviveHealthdRestart(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	d := startDaemon(t, e.Endpoint, keptSpec)
	ids := map[string]string{}
	for _, name := range []string{"kept-well", "kept-sickens", "kept-recovers", "kept-starts"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "kept"}})
		if name != "kept-starts" {
			inside(t, e, name, "touch", "/up")
			d.until(20*time.Second, name, "ready", ready)
		}
	}
	set(t, e, ids["kept-recovers"], "status=500")
	d.until(20*time.Second, "kept-recovers", "unready", func(s status) bool { return !s.Ready })
	d.waitForJournal("kept-recovers")
	d.kill()
	set(t, e, ids["kept-recovers"], "status=200")
	set(t, e, ids["kept-sickens"], "status=500")
	d.restart()
	d.checkRememberedUntilVerdict()
	if n := d.countEvents("kept-well", "Ready"); n != 1 {
		t.Errorf("kept-well became ready %d times: %v", n, d.reasons("kept-well"))
	}
	inside(t, e, "kept-starts", "touch", "/up")
	d.until(20*time.Second, "kept-starts", "ready", ready)
}

// checkRememberedUntilVerdict checks that the remembered state stays until a verdict.
func (d *daemon) checkRememberedUntilVerdict() {
	d.t.Helper()
	outcome := func(s status) string { return s.Probes["readiness"].Outcome }
	d.until(20*time.Second, "kept-sickens", "unready", func(s status) bool {
		if !s.Ready && outcome(s) != "Failure" {
			d.t.Fatalf("kept-sickens is unready before a verdict: %+v", s)
		}
		return !s.Ready
	})
	all := d.reasons("kept-sickens")
	if want := []string{"Unhealthy", "Unhealthy", "Unhealthy", "NotReady"}; !slices.Equal(all[max(0, len(all)-len(want)):], want) {
		d.t.Errorf("events %v, want %v at the end", all, want)
	}
	d.until(20*time.Second, "kept-recovers", "ready after a success", func(s status) bool {
		if s.Ready && outcome(s) != "Success" {
			d.t.Fatalf("kept-recovers is ready before a verdict: %+v", s)
		}
		return s.Ready
	})
	d.until(20*time.Second, "kept-well", "asked again", func(s status) bool {
		if !s.Started || !s.Ready || !s.Probes["startup"].LastProbeTime.IsZero() {
			d.t.Fatalf("kept-well is not started and ready all the time, or was asked about its start: %+v", s)
		}
		return outcome(s) == "Success"
	})
	d.until(20*time.Second, "kept-starts", "asked about its start", func(s status) bool {
		if s.Started || s.Ready {
			d.t.Fatalf("kept-starts is started: %+v", s)
		}
		return s.Probes["startup"].Outcome == "Failure"
	})
}

// countEvents returns how many events of that reason a container has.
func (d *daemon) countEvents(name, reason string) int {
	d.t.Helper()
	n := 0
	for _, r := range d.reasons(name) {
		if r == reason {
			n++
		}
	}
	return n
}
