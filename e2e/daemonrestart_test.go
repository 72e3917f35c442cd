package e2e

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

	"healthd/runtime/docker/dockertest"
)

// A container that had ended before healthd was first started is left alone: healthd cannot
// know why it ended. Once somebody starts it, it is supervised. What the engine told less than 2 s
// before the first connection may be from after it, because clocks differ: so its end is older.
func containerFoundStoppedIsLeftAlone(t *testing.T, e engine) {
	id := e.Run(t, dockertest.RunOptions{
		Name: "relic", Labels: map[string]string{"e2e": "relic"}, Cmd: []string{"sh", "-c", "test -e /seen && exec sleep 1000; touch /seen; exit 1"},
	})
	d := newDaemonOn(t, e, "[[spec]]\nname = \"relic\"\nmatch = { e2e = \"relic\" }\n")
	d.eventually(20*time.Second, "see it ended for a while", func() error { return endedFor(t, e, id, 3*time.Second) })
	d.start()
	d.until(20*time.Second, "relic", "failed", func(s status) bool { return s.Phase == "Failed" })
	d.stays(2*time.Second, "relic", "left alone", func(s status) bool { return s.Phase == "Failed" && s.RestartCount == 0 })
	d.checkFoundStopped("relic")
	e.StartByOperator(t, id)
	d.until(20*time.Second, "relic", "ready", ready)
	d.endProcess(e, id)
	d.until(20*time.Second, "relic", "started again", restarted(1))
}

// A container that was made and crashed while healthd was away is started again, unless an operator
// stopped it.
func madeWhileHealthdIsAway(t *testing.T, e engine) {
	d := startDaemonOn(t, e, "[[spec]]\nname = \"newborn\"\nmatch = { e2e = \"newborn\" }\n")
	run := func(name, command string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "newborn"}, Cmd: []string{"sh", "-c", command}})
	}
	run("newborn-before", "exec sleep 1000")
	d.until(20*time.Second, "newborn-before", "ready", ready)
	if err := d.stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	id := run("newborn", "test -e /seen && exec sleep 1000; touch /seen; exit 1")
	d.eventually(20*time.Second, "see it ended", func() error { return endedFor(t, e, id, 0) })
	e.KillByOperator(t, run("newborn-stopped", "exec sleep 1000"), syscall.SIGKILL)
	d.start()
	d.until(20*time.Second, "newborn", "started again", restarted(1))
	d.stays(2*time.Second, "newborn-stopped", "left alone", func(s status) bool { return s.State.Running == nil && s.RestartCount == 0 })
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
func readyAndStartedSurviveHealthdRestart(t *testing.T, e engine) {
	d := startDaemonOn(t, e, keptSpec)
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

// A readiness check that comes before healthd has listed the containers waits for the list:
// a restart of healthd takes no ready container down.
func TestChecksWaitWhileHealthdStarts(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(webSpec, "awaited"))
	e.Run(t, dockertest.RunOptions{Name: "awaited-1", Labels: map[string]string{"e2e": "awaited"}})
	d.until(20*time.Second, "awaited-1", "ready", ready)
	d.waitForJournal("awaited-1")
	d.kill()
	list := make(chan struct{})
	p.on("^GET /containers/", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-list:
			p.passOn(w, r)
		case <-r.Context().Done():
		}
	})
	d.start()
	var checks []net.Conn
	for _, request := range []string{
		"GET /v1/ready/awaited-1", "OPTIONS /v1/ready/awaited/awaited-1", "HEAD /v1/ready/awaited-1", "GET /v1/services/awaited/ready",
	} {
		checks = append(checks, d.check(request))
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
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("answered %q, %v", line, err)
		}
	}
}

// check connects as soon as healthd listens and sends a request of a balancer's check.
func (d *daemon) check(request string) net.Conn {
	d.t.Helper()
	var c net.Conn
	d.eventually(30*time.Second, "listen", func() (err error) {
		c, err = net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		return err
	})
	d.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, request+" HTTP/1.1\r\nHost: healthd\r\n\r\n"); err != nil {
		d.t.Fatal(err)
	}
	return c
}
