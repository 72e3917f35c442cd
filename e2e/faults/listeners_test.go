package faults

import (
	"healthd/e2e/ports"

	"healthd/e2e/patience"

	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// crowd opens n connections that say something, and keeps them to the end of the test.
func crowd(t *testing.T, n int, address, says string) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", address, patience.Limit)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, says)
	}
}

// Clients that only hold connections take neither the descriptors of probes nor the turn of others.
func TestCrowdsOnTheListeners(t *testing.T) {
	const descriptors = 2000
	e := harness.Docker.Engine(t)
	d := harness.NewDaemon(t, e.Endpoint, `
[[spec]]
name = "crowded"
match = { e2e = "crowded" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
liveness = { exec = { command = ["true"] }, period = "500ms", timeout = "30s" }
`)
	agent := ports.Address(t)
	d.Rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q", agent), 1)
	})
	d.Under = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", descriptors, descriptors)}
	harness.StartedDaemon(d)
	e.Run(t, dockertest.RunOptions{Name: "crowded", Labels: map[string]string{"e2e": "crowded"}})
	d.Until("crowded", "ready", harness.Ready)

	address := strings.TrimPrefix(d.URL, "http://")
	crowd(t, 1500, address, "")
	crowd(t, 500, address, "GET /v1/events HTTP/1.1\r\nHost: healthd\r\nAccept: text/event-stream\r\n\r\n")
	crowd(t, 500, address, "GET /v1/ready/crowded HTTP/1.1\r\nHost: h")
	crowd(t, 1500, agent, "crow")
	for range 20 {
		if code, body, err := d.Get("/v1/ready/crowded"); code != http.StatusOK {
			t.Fatalf("%d %q %v", code, body, err)
		}
		if answer, err := harness.AskAgent(agent, "crowded"); answer != "up 100%" {
			t.Fatalf("the agent answers %q, %v", answer, err)
		}
	}
	before := d.Until("crowded", "ready", harness.Ready).Probes["readiness"].LastProbeTime
	d.Until("crowded", "probed on", func(s harness.Status) bool {
		return s.Ready && s.Probes["readiness"].LastProbeTime.After(before.Add(2*time.Second))
	})
	for _, ev := range d.Events("crowded") {
		if ev.Reason == "NotReady" || strings.Contains(ev.Message, "could not run") {
			t.Errorf("%s: %s", ev.Reason, ev.Message)
		}
	}
	open, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(d.Cmd.Process.Pid), "fd"))
	if err != nil || len(open) > descriptors*9/10 {
		t.Errorf("%d descriptors are open: %v", len(open), err)
	}
}
