package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

func startRenameRemove(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(harness.WebSpec, "life"))
	if _, err := d.Status("life-a"); err == nil {
		t.Fatal("a container is known that is not there")
	}
	id := e.Run(t, dockertest.RunOptions{Name: "life-a", Labels: map[string]string{"e2e": "life"}})
	d.Until("life-a", "ready", harness.Ready)
	if code, body, err := d.Get("/v1/ready/life/life-a"); code != 200 || body != "ready\n" {
		t.Errorf("/v1/ready: %d %q %v", code, body, err)
	}
	e.Rename(t, id, "life-b")
	s := d.Until("life-b", "known", func(harness.Status) bool { return true })
	if !s.Ready || s.RestartCount != 0 {
		t.Errorf("renaming changed more than the name: %+v", s)
	}
	if code, _, _ := d.Get("/v1/ready/life/life-a"); code != http.StatusServiceUnavailable {
		t.Errorf("/v1/ready for the old name: %d", code)
	}
	e.Remove(t, id)
	d.Eventually("forget the removed container", func() error {
		if _, err := d.Status("life-b"); err == nil {
			return errors.New("still known")
		}
		return nil
	})
	_, metrics, err := d.Get("/metrics")
	if err != nil || strings.Contains(metrics, "life-") {
		t.Errorf("metrics still speak of a container that is gone (%v)", err)
	}
}

// Not parallel: it loads the whole machine.
func hundredContainers(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(harness.WebSpec, "hundred"))
	var starting sync.WaitGroup
	slots := make(chan struct{}, 8)
	ids := make([]string, 100)
	for i := range ids {
		slots <- struct{}{}
		starting.Go(func() {
			defer func() { <-slots }()
			ids[i] = e.Run(t, dockertest.RunOptions{Name: fmt.Sprintf("hundred-%d", i), Labels: map[string]string{"e2e": "hundred"}})
		})
	}
	starting.Wait()
	t.Cleanup(func() { e.RemoveAll(t, ids...) })
	d.Eventually("see all hundred ready", func() error {
		code, body, err := d.Get("/v1/services/hundred/ready?min=100")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
	var services struct {
		Endpoints []struct {
			Address string
			Port    int
			Ready   bool
		}
	}
	_, body, err := d.Get("/v1/services/hundred")
	if err == nil {
		err = json.Unmarshal([]byte(body), &services)
	}
	if err != nil || len(services.Endpoints) != 100 {
		t.Fatalf("%d endpoints, %v: %s", len(services.Endpoints), err, body)
	}
	for _, endpoint := range services.Endpoints {
		if endpoint.Address == "" || endpoint.Port != 8080 {
			t.Errorf("endpoint %+v", endpoint)
		}
	}
	if out, code := d.Run("status"); code != 0 || strings.Count(out, "hundred-") < 100 {
		t.Errorf("status: exit code %d\n%s", code, out)
	} else if long := slices.IndexFunc(strings.Split(out, "\n"), func(l string) bool { return len([]rune(l)) > 100 }); long >= 0 {
		t.Errorf("line %d of the table is wider than 100 columns:\n%s", long+1, out)
	}
}

var invalidContainers = regexp.MustCompile(`(?m)^healthd_invalid_containers [1-9]`)

func labelsOfContainers(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(harness.WebSpec, "labels"))
	t.Run("override", func(t *testing.T) {
		e.Run(t, dockertest.RunOptions{Name: "labels-override", Labels: map[string]string{
			"e2e": "labels", "healthd.readiness.http_get.path": "/no-such-page",
			"healthd.readiness.failure_threshold": "1",
		}})
		s := d.Until("labels-override", "asked where the label says", func(s harness.Status) bool {
			return strings.Contains(s.Probes["readiness"].Output, "404")
		})
		if s.Ready || s.Spec != "labels" {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("alone", func(t *testing.T) {
		e.Run(t, dockertest.RunOptions{Name: "labels-alone", Labels: map[string]string{
			"healthd.readiness.tcp_socket.port": "8080", "healthd.readiness.period": "200ms",
		}})
		d.Until("labels-alone", "ready", harness.Ready)
	})
	t.Run("wrong", func(t *testing.T) {
		e.Run(t, dockertest.RunOptions{Name: "labels-wrong", Labels: map[string]string{
			"e2e": "labels", "healthd.livness.period": "5s", "healthd.readiness.period": "soon",
		}})
		s := d.Until("labels-wrong", "invalid", func(s harness.Status) bool { return s.Invalid != "" })
		for _, want := range []string{"healthd.livness", "liveness", "healthd.readiness.period", "soon"} {
			if !strings.Contains(s.Invalid, want) {
				t.Errorf("the reason does not say %q: %s", want, s.Invalid)
			}
		}
		out, code := d.Run("status", "labels-wrong")
		if code != 0 || !strings.Contains(out, "Invalid") {
			t.Errorf("status: exit code %d\n%s", code, out)
		}
		// Other tests may have such containers on the engine, too.
		if _, metrics, _ := d.Get("/metrics"); !invalidContainers.MatchString(metrics) {
			t.Error("healthd_invalid_containers is 0")
		}
	})
	t.Run("disabled", func(t *testing.T) {
		e.Run(t, dockertest.RunOptions{Name: "labels-disabled", Labels: map[string]string{"e2e": "labels", "healthd.enable": "false"}})
		e.Run(t, dockertest.RunOptions{Name: "labels-after", Labels: map[string]string{"e2e": "labels"}})
		d.Until("labels-after", "ready", harness.Ready)
		if _, err := d.Status("labels-disabled"); err == nil {
			t.Error("a container with healthd.enable=false is supervised")
		}
	})
}

// The engine is down for some seconds; its containers run on.
func engineAway(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(harness.WebSpec, "away")+`
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "500ms"
timeout = "30s"
`)
	id := e.Run(t, dockertest.RunOptions{Name: "away", Labels: map[string]string{"e2e": "away"}})
	d.Until("away", "ready and probed", func(s harness.Status) bool {
		return s.Ready && s.Probes["liveness"].Outcome == "Success"
	})
	before := harness.StartedAt(t, e, id)
	e.Stop(t)
	stopped := time.Now()
	d.Eventually("notice that the engine is gone", func() error { return d.RuntimeUp("0") })
	if code, _, _ := d.Get("/livez"); code != http.StatusOK {
		t.Errorf("/livez without an engine: %d", code)
	}
	d.Until("away", "probed for five seconds without an engine", func(s harness.Status) bool {
		if !s.Ready {
			t.Fatalf("not ready while the engine is away: %+v", s)
		}
		return s.Probes["liveness"].LastProbeTime.Sub(stopped) > 5*time.Second
	})
	e.Up(t)
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	d.Stays(2*time.Second, "away", "ready and not restarted", func(s harness.Status) bool { return s.Ready && s.RestartCount == 0 })
	if after := harness.StartedAt(t, e, id); !after.Equal(before) {
		t.Errorf("started again at %v", after)
	}
	// Before it is Ready it may have been asked too early.
	if got := d.Reasons("away"); len(got) == 0 || got[len(got)-1] != "Ready" {
		t.Errorf("events %v, want none after Ready", got)
	}
}

// newestStart is StartedAt where a run may have ended already: containerd does not know the
// start of such a run, so healthd's event tells it.
func newestStart(d *harness.Daemon, e harness.Engine, name string) time.Time {
	d.T.Helper()
	if at := harness.StartedAt(d.T, e, name); !at.IsZero() {
		return at
	}
	var at time.Time
	for _, ev := range d.Events(name) {
		if ev.Reason == "Started" {
			at = ev.Time
		}
	}
	return at
}
