package faults

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// While healthd does not run, be it for a SIGSTOP, a suspended host or a CPU quota, a probe's timeout goes by. That says
// nothing about the container, which has answered meanwhile, or has not been asked.
func TestDaemonThatDoesNotRun(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	var holds atomic.Bool // the next answer
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if holds.CompareAndSwap(true, false) {
			close(asked)
			<-answer
		}
	}))
	t.Cleanup(server.Close)
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, fmt.Sprintf(`
[[spec]]
name = "awake"
match = { e2e = "awake" }
liveness = { http_get = { port = %d, path = "/" }, period = "200ms", timeout = "10s", failure_threshold = 1 }
readiness = { tcp_socket = { port = %[1]d }, period = "100ms", timeout = "10s", failure_threshold = 1 }
`, server.Listener.Addr().(*net.TCPAddr).Port))
	signal := func(s syscall.Signal) {
		if err := d.Cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	e.Run(t, dockertest.RunOptions{Name: "awake", Network: "host", Labels: map[string]string{"e2e": "awake"}})
	d.Until("awake", "well", func(s harness.Status) bool { return s.Ready && s.Probes["liveness"].Outcome == "Success" })
	holds.Store(true)
	<-asked
	signal(syscall.SIGSTOP)
	close(answer)
	time.Sleep(12 * time.Second) // the timeout is over, and what is seen now is late
	signal(syscall.SIGCONT)
	before, err := d.Status("awake")
	if err != nil {
		t.Fatal(err)
	}
	d.Until("awake", "asked again", func(s harness.Status) bool {
		l := s.Probes["liveness"]
		return s.Ready && l.Outcome == "Success" && l.LastProbeTime.After(before.Probes["liveness"].LastProbeTime)
	})
	if n := d.CountEvents("awake", "Unhealthy"); n > 0 {
		t.Errorf("events %+v", d.Events("awake"))
	}
	if s, err := d.Status("awake"); err != nil || s.RestartCount > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
