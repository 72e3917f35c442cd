package engines

import (
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
)

// A container whose network is taken away is ready nowhere, whatever its probe said last, until it has one again. So is one
// that never had any (network_mode: none).
func TestNetworkIsGone(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.StartDaemon(t, e.Endpoint, "[[spec]]\nname = \"moved\"\nmatch = { e2e = \"moved\" }\npublish = { port = 8080 }\n"+
		"readiness = { http_get = { port = 8080, path = \"/healthz\" }, period = \"1s\", timeout = \"30s\" }\n")
	id := e.Run(t, dockertest.RunOptions{Name: "moved", Labels: map[string]string{"e2e": "moved"}})
	d.Until("moved", "ready", harness.Ready)
	if err := e.Client().NetworkDisconnect(t.Context(), "bridge", id, false); err != nil {
		t.Fatal(err)
	}
	d.Until("moved", "not ready without a network", func(s harness.Status) bool {
		return !s.Ready && s.Condition("Ready").Reason == core.NotReadyNoAddress
	})
	if code, body, err := d.Get("/v1/ready/moved"); err != nil || code != 503 {
		t.Errorf("/v1/ready/moved: %d %s %v", code, body, err)
	}
	if err := e.Client().NetworkConnect(t.Context(), "bridge", id, nil); err != nil {
		t.Fatal(err)
	}
	e.Run(t, dockertest.RunOptions{Name: "apart", Network: "none", Labels: map[string]string{"e2e": "moved"}})
	d.Until("apart", "not ready, as it never had a network", func(s harness.Status) bool {
		return s.Phase == "Running" && !s.Ready && s.Condition("Ready").Reason == core.NotReadyNoAddress
	})
	if out, _ := d.Run("explain", "apart"); !strings.Contains(out, "NoAddress (it is in no network") {
		t.Errorf("explain apart:\n%s", out)
	}
	d.Until("moved", "ready with a network", func(s harness.Status) bool { return s.Ready && s.RestartCount == 0 })
}
