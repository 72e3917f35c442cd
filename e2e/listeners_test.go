package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// crowd opens n connections that say something, and keeps them to the end of the test.
func crowd(t *testing.T, n int, address, says string) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", address, 10*time.Second)
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
	e := engines.Engine(t)
	d := newDaemon(t, e.Endpoint, `
[[spec]]
name = "crowded"
match = { e2e = "crowded" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "200ms", failure_threshold = 1 }
liveness = { exec = { command = ["true"] }, period = "500ms", timeout = "10s" }
`)
	agent := freeAddress(t)
	d.rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q", agent), 1)
	})
	d.under = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", descriptors, descriptors)}
	startedDaemon(d)
	e.Run(t, dockertest.RunOptions{Name: "crowded", Labels: map[string]string{"e2e": "crowded"}})
	d.until(30*time.Second, "crowded", "ready", ready)

	address := strings.TrimPrefix(d.url, "http://")
	crowd(t, 1500, address, "")
	crowd(t, 500, address, "GET /v1/events HTTP/1.1\r\nHost: healthd\r\nAccept: text/event-stream\r\n\r\n")
	crowd(t, 500, address, "GET /v1/ready/crowded HTTP/1.1\r\nHost: h")
	crowd(t, 1500, agent, "crow")
	for range 20 {
		if code, body, err := d.get("/v1/ready/crowded"); code != http.StatusOK {
			t.Fatalf("%d %q %v", code, body, err)
		}
		if answer, err := askAgent(agent, "crowded"); answer != "up 100%" {
			t.Fatalf("the agent answers %q, %v", answer, err)
		}
	}
	before := d.until(20*time.Second, "crowded", "ready", ready).Probes["readiness"].LastProbeTime
	d.until(20*time.Second, "crowded", "probed on", func(s status) bool {
		return s.Ready && s.Probes["readiness"].LastProbeTime.After(before.Add(2*time.Second))
	})
	for _, ev := range d.events("crowded") {
		if ev.Reason == "NotReady" || strings.Contains(ev.Message, "could not run") {
			t.Errorf("%s: %s", ev.Reason, ev.Message)
		}
	}
	open, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(d.cmd.Process.Pid), "fd"))
	if err != nil || len(open) > descriptors*9/10 {
		t.Errorf("%d descriptors are open: %v", len(open), err)
	}
}
