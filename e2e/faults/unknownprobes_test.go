package faults

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const execSpec = `
[[spec]]
name = "speechless"
match = { e2e = "speechless" }
[spec.readiness]
exec = { command = ["true"] }
period = "500ms"
timeout = "30s"
failure_threshold = 1
[spec.liveness]
exec = { command = ["true"] }
period = "1h"
failure_threshold = 1
`

// A probe that cannot be carried out is tried up to three times, shown and counted as
// Unknown, and changes nothing.
func TestUnknownProbe(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartDaemon(t, p.Endpoint(), execSpec)
	run := func(name string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "speechless"}})
	}
	old := run("speechless-old")
	d.Until("speechless-old", "ready", harness.Ready)
	tried := "POST /containers/" + old + "/exec$"
	p.On("POST /containers/.*/exec$", harness.Fails)
	asked := p.Count(tried)
	unknown := func() int { return unknownProbes(d, "Readiness", "speechless-old") }
	d.Eventually("count what it cannot ask", func() error { return harness.AtLeast(5, unknown()) })
	few := unknown()
	tries := p.Count(tried) - asked
	if most := 3 * (unknown() + 1); tries < 2*few || tries > most {
		t.Errorf("%d tries for %d probes, want three each, or fewer when they take long", tries, few)
	}
	run("speechless-new")
	s := d.Until("speechless-new", "of unknown health", func(s harness.Status) bool {
		return s.Probes["liveness"].Output != "" && s.Probes["readiness"].Output != ""
	})
	if l, r := s.Probes["liveness"], s.Probes["readiness"]; l.Outcome != "Unknown" || l.Result != "Success" || r.Outcome != "Unknown" || r.Result != "Failure" {
		t.Errorf("liveness %+v, readiness %+v", l, r)
	}
	d.Stays(time.Second, "speechless-old", "ready and not restarted", func(s harness.Status) bool {
		return s.Ready && s.RestartCount == 0 && strings.Contains(s.Probes["readiness"].Output, "the engine is sick")
	})
	all := d.Events("speechless-old")
	if last := all[len(all)-1]; last.Reason != "Unhealthy" || !strings.Contains(last.Message, "could not run, which does not count") {
		t.Errorf("the last event is %+v", last)
	}
	p.ClearFaults()
	d.Until("speechless-new", "ready after all", func(s harness.Status) bool { return s.Ready && s.RestartCount == 0 })
}

// unknownProbes reads from the metrics how many probes could not be asked.
func unknownProbes(d *harness.Daemon, probe, name string) int {
	d.T.Helper()
	_, metrics, err := d.Get("/metrics")
	if err != nil {
		d.T.Fatal(err)
	}
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "prober_probe_total{") || !strings.Contains(line, `container="`+name+`"`) ||
			!strings.Contains(line, `probe_type="`+probe+`"`) || !strings.Contains(line, `result="unknown"`) {
			continue
		}
		_, number, _ := strings.Cut(line, "} ")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil {
			d.T.Fatal(err)
		}
		return n
	}
	return 0
}

const tracelessSpec = `
[[spec]]
name = "traceless-http"
match = { e2e = "traceless-http" }
readiness = { http_get = { port = 8642, path = "/healthz" }, period = "100ms" }
[[spec]]
name = "traceless-tcp"
match = { e2e = "traceless-tcp" }
readiness = { tcp_socket = { port = 8642 }, period = "100ms" }
`

// Probes leave no connection in TIME_WAIT on the host: TCP probes reset theirs, and the
// server closes those of HTTP probes first.
func TestProbesLeaveNoTimeWait(t *testing.T) {
	t.Parallel()
	const port = ":21C2" // one that no other test asks at these addresses
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, tracelessSpec)
	for _, tt := range []struct {
		name string
		with func(n int) bool // so many in TIME_WAIT in the container
	}{
		{"traceless-http", func(n int) bool { return n > 0 }},
		{"traceless-tcp", func(n int) bool { return n == 0 }},
	} {
		id := e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: map[string]string{"e2e": tt.name}, Cmd: []string{"/bin/testserver", "-http", ":8642"}})
		d.Until(tt.name, "asked often", func(s harness.Status) bool { return s.Ready && s.Probes["readiness"].Run >= 20 })
		c, err := e.Client().ContainerInspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		remote := hexAddress(t, c.NetworkSettings.Networks["bridge"].IPAddress) + port
		if n := timeWaits(t, "self", func(_, other string) bool { return other == remote }); n != 0 {
			t.Errorf("%s: %d connections are in TIME_WAIT on the host", tt.name, n)
		}
		n := timeWaits(t, strconv.Itoa(c.State.Pid), func(local, _ string) bool { return strings.HasSuffix(local, port) })
		if !tt.with(n) {
			t.Errorf("%s: %d connections are in TIME_WAIT in the container", tt.name, n)
		}
	}
}

// timeWaits counts the connections in TIME_WAIT that a process's network has.
func timeWaits(t *testing.T, pid string, match func(local, remote string) bool) int {
	t.Helper()
	const timeWait = "06"
	n := 0
	for _, file := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/" + pid + "/net/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 3 && f[3] == timeWait && match(f[1], f[2]) {
				n++
			}
		}
	}
	return n
}

// hexAddress writes an IPv4 address as /proc/net/tcp does.
func hexAddress(t *testing.T, address string) string {
	t.Helper()
	ip, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	b := ip.As4()
	return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:]))
}
