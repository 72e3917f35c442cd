package engines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

// A container that had ended before healthd was first started is left alone: healthd cannot
// know why it ended. Once somebody starts it, it is supervised. What the engine told less than 2 s
// before the first connection may be from after it, because clocks differ: so its end is older.
func containerFoundStoppedIsLeftAlone(t *testing.T, e harness.Engine) {
	id := e.Run(t, dockertest.RunOptions{
		Name: "relic", Labels: map[string]string{"e2e": "relic"}, Cmd: []string{"sh", "-c", "test -e /seen && exec sleep 1000; touch /seen; exit 1"},
	})
	d := harness.NewDaemonOn(t, e, "[[spec]]\nname = \"relic\"\nmatch = { e2e = \"relic\" }\n")
	d.Eventually("see it ended for a while", func() error { return endedFor(t, e, id, 3*time.Second) })
	d.Start()
	d.Until("relic", "failed", func(s harness.Status) bool { return s.Phase == "Failed" })
	d.Stays(2*time.Second, "relic", "left alone", func(s harness.Status) bool { return s.Phase == "Failed" && s.RestartCount == 0 })
	checkFoundStopped(d, "relic")
	e.StartByOperator(t, id)
	d.Until("relic", "ready", harness.Ready)
	d.EndProcess(e, id)
	d.Until("relic", "started again", harness.Restarted(1))
}

// A container that was made and crashed while healthd was away is started again, unless an operator
// stopped it.
func madeWhileHealthdIsAway(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, "[[spec]]\nname = \"newborn\"\nmatch = { e2e = \"newborn\" }\n")
	run := func(name, command string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "newborn"}, Cmd: []string{"sh", "-c", command}})
	}
	run("newborn-before", "exec sleep 1000")
	d.Until("newborn-before", "ready", harness.Ready)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	id := run("newborn", "test -e /seen && exec sleep 1000; touch /seen; exit 1")
	d.Eventually("see it ended", func() error { return endedFor(t, e, id, 0) })
	e.KillByOperator(t, run("newborn-stopped", "exec sleep 1000"), syscall.SIGKILL)
	d.Start()
	d.Until("newborn", "started again", harness.Restarted(1))
	d.Stays(2*time.Second, "newborn-stopped", "left alone", func(s harness.Status) bool { return s.State.Running == nil && s.RestartCount == 0 })
}

const keptSpec = `
[[spec]]
name = "kept"
match = { e2e = "kept" }
[spec.startup]
exec = { command = ["test", "-e", "/up"] }
period = "500ms"
timeout = "30s"
failure_threshold = 1000
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "1s"
timeout = "30s"
failure_threshold = 3
`

// After a restart, healthd keeps the last readiness and started state of a run until its
// probes reach a verdict.
func readyAndStartedSurviveHealthdRestart(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, keptSpec)
	ids := map[string]string{}
	for _, name := range []string{"kept-well", "kept-sickens", "kept-recovers", "kept-starts"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "kept"}})
		if name != "kept-starts" {
			harness.Inside(t, e, name, "touch", "/up")
			d.Until(name, "ready", harness.Ready)
		}
	}
	harness.Set(t, e, ids["kept-recovers"], "status=500")
	d.Until("kept-recovers", "unready", func(s harness.Status) bool { return !s.Ready })
	d.WaitForJournal("kept-recovers")
	d.Kill()
	harness.Set(t, e, ids["kept-recovers"], "status=200")
	harness.Set(t, e, ids["kept-sickens"], "status=500")
	d.Restart()
	checkRememberedUntilVerdict(d)
	if n := d.CountEvents("kept-well", "Ready"); n != 1 {
		t.Errorf("kept-well became ready %d times: %v", n, d.Reasons("kept-well"))
	}
	harness.Inside(t, e, "kept-starts", "touch", "/up")
	d.Until("kept-starts", "ready", harness.Ready)
}

// checkRememberedUntilVerdict checks that the remembered state stays until a verdict.
func checkRememberedUntilVerdict(d *harness.Daemon) {
	d.T.Helper()
	outcome := func(s harness.Status) string { return s.Probes["readiness"].Outcome }
	d.Until("kept-sickens", "unready", func(s harness.Status) bool {
		if !s.Ready && outcome(s) != "Failure" {
			d.T.Fatalf("kept-sickens is unready before a verdict: %+v", s)
		}
		return !s.Ready
	})
	all := d.Reasons("kept-sickens")
	if want := []string{"Unhealthy", "Unhealthy", "Unhealthy", "NotReady"}; !slices.Equal(all[max(0, len(all)-len(want)):], want) {
		d.T.Errorf("events %v, want %v at the end", all, want)
	}
	d.Until("kept-recovers", "ready after a success", func(s harness.Status) bool {
		if s.Ready && outcome(s) != "Success" {
			d.T.Fatalf("kept-recovers is ready before a verdict: %+v", s)
		}
		return s.Ready
	})
	d.Until("kept-well", "asked again", func(s harness.Status) bool {
		if !s.Started || !s.Ready || !s.Probes["startup"].LastProbeTime.IsZero() {
			d.T.Fatalf("kept-well is not started and ready all the time, or was asked about its start: %+v", s)
		}
		return outcome(s) == "Success"
	})
	d.Until("kept-starts", "asked about its start", func(s harness.Status) bool {
		if s.Started || s.Ready {
			d.T.Fatalf("kept-starts is started: %+v", s)
		}
		return s.Probes["startup"].Outcome == "Failure"
	})
}

// A readiness check that comes before healthd has listed the containers waits for the list:
// a restart of healthd takes no ready container down.
func TestChecksWaitWhileHealthdStarts(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.WebSpec, "awaited"))
	e.Run(t, dockertest.RunOptions{Name: "awaited-1", Labels: map[string]string{"e2e": "awaited"}})
	d.Until("awaited-1", "ready", harness.Ready)
	d.WaitForJournal("awaited-1")
	d.Kill()
	list := make(chan struct{})
	p.On("^GET /containers/", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-list:
			p.PassOn(w, r)
		case <-r.Context().Done():
		}
	})
	d.Start()
	const patient = 5 * time.Second // an answer waits for the list at most
	asked := time.Now()
	var checks []net.Conn
	for _, request := range []string{
		"GET /v1/ready/awaited-1", "OPTIONS /v1/ready/awaited/awaited-1", "HEAD /v1/ready/awaited-1", "GET /v1/services/awaited/ready",
	} {
		checks = append(checks, check(d, request))
	}
	for _, c := range checks {
		if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("answered before the list, or %v", err)
		}
	}
	close(list)
	for _, c := range checks {
		if err := c.SetReadDeadline(time.Now().Add(patience.Limit)); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if late := time.Since(asked) >= patient; err != nil || line != "HTTP/1.1 200 OK\r\n" && !late { // waits: a late answer may say so
			t.Errorf("answered %q, %v", line, err)
		}
	}
}

// check connects as soon as healthd listens and sends a request of a balancer's check.
func check(d *harness.Daemon, request string) net.Conn {
	d.T.Helper()
	var c net.Conn
	d.Eventually("listen", func() (err error) {
		c, err = net.Dial("tcp", strings.TrimPrefix(d.URL, "http://"))
		return err
	})
	d.T.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, request+" HTTP/1.1\r\nHost: healthd\r\n\r\n"); err != nil {
		d.T.Fatal(err)
	}
	return c
}
