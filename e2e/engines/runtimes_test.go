package engines

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
)

const namesakeSpec = `
[[spec]]
name = "namesake"
match = { e2e = "namesake" }
readiness = { tcp_socket = { port = 8080 }, period = "200ms" }
`

// A healthd that watches Docker and two namespaces of containerd tells their containers of one
// name apart, and touches none in a namespace that it was not given.
func TestNamesakesOfRuntimesAndNamespaces(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e, c := harness.Docker.Engine(t), harness.Containerd.Engine(t)
	d := harness.StartedDaemon(harness.NewDaemonWith(t, e.Runtime()+c.Runtime()+"namespaces = [\"default\", \"blog\", \"not-there\"]\n", namesakeSpec))
	labels := map[string]string{"e2e": "namesake"}
	started := map[string]time.Time{}
	e.Run(t, dockertest.RunOptions{Name: "namesake", Labels: labels})
	c.Run(t, containerdtest.RunOptions{Name: "namesake", ID: "namesake-default", Labels: labels})
	for _, namespace := range []string{"blog", "foreign"} {
		c.Run(t, containerdtest.RunOptions{Name: "namesake", ID: "namesake", Namespace: namespace, Labels: labels})
	}
	all := []string{"containerd:blog:namesake", "containerd:namesake", "docker:namesake"}
	for _, name := range all {
		s := d.Until(name, "ready", harness.Ready)
		started[name] = s.State.Running.StartedAt
	}
	if got := containersOf(d, t); !slices.Equal(got, []string{"containerd blog:namesake", "containerd namesake-default", "docker"}) {
		t.Errorf("containers %q", got)
	}
	for _, args := range [][]string{{"restart", "namesake"}, {"hold", "namesake"}, {"explain", "namesake"}, {"probe", "namesake"}} {
		if out, code := d.Run(args...); code != 1 || !strings.Contains(out, strings.Join(all, ", ")) {
			t.Errorf("%v: exit code %d, want 1 and the candidates: %s", args, code, out)
		}
	}
	if code, body, err := d.Get("/v1/ready/namesake"); code != 503 || !strings.Contains(body, "AmbiguousName: "+strings.Join(all, ", ")) {
		t.Errorf("/v1/ready: %d %q %v", code, body, err)
	}
	if code, body, err := d.Get("/v1/ready/namesake/containerd:blog:namesake"); code != 200 {
		t.Errorf("/v1/ready: %d %q %v", code, body, err)
	}
	if out, code := d.Run("restart", "containerd:blog:namesake"); code != 0 {
		t.Fatalf("restart: exit code %d: %s", code, out)
	}
	d.Until("containerd:blog:namesake", "ready again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	for _, name := range []string{"containerd:namesake", "docker:namesake"} {
		d.Until(name, "as before", func(s harness.Status) bool {
			return s.RestartCount == 0 && s.State.Running.StartedAt.Equal(started[name])
		})
	}
	_, metrics, err := d.Get("/metrics")
	for _, name := range all {
		if line := fmt.Sprintf("healthd_container_ready{container=%q,project=\"\",service=\"namesake\"} 1\n", name); err != nil || !strings.Contains(metrics, line) {
			t.Errorf("no metric %s (%v)", line, err)
		}
	}
	if out, code := d.Run("status"); code != 0 || strings.Count(out, "docker:namesake") != 1 || strings.Count(out, "containerd:blog:namesake") != 1 {
		t.Errorf("status: exit code %d\n%s", code, out)
	}
	checkNamesThatAreLabels(d, c, labels)
	if log := d.Log.String(); !strings.Contains(log, "not-there") {
		t.Error("no word in the log of the namespace that does not exist")
	}
}

// checkNamesThatAreLabels makes another container of the name in the default namespace: neither is
// acted on by guess, and neither answers for the other.
func checkNamesThatAreLabels(d *harness.Daemon, c *containerdtest.Engine, labels map[string]string) {
	d.T.Helper()
	another := c.Run(d.T, containerdtest.RunOptions{Name: "namesake", ID: "namesake-again", Labels: labels})
	d.Until("id:namesake-again", "ready", harness.Ready)
	const candidates = "id:namesake-again, id:namesake-default"
	if out, code := d.Run("restart", "containerd:namesake"); code != 1 || !strings.Contains(out, candidates) {
		d.T.Errorf("restart: exit code %d, want 1 and the candidates: %s", code, out)
	}
	if code, body, err := d.Get("/v1/ready/containerd:namesake"); code != 503 || !strings.Contains(body, "AmbiguousName: "+candidates) {
		d.T.Errorf("/v1/ready: %d %q %v", code, body, err)
	}
	if out, code := d.Run("restart", "id:namesake-again"); code != 0 {
		d.T.Fatalf("restart: exit code %d: %s", code, out)
	}
	d.Until("id:namesake-again", "ready again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	c.Remove(d.T, another)
	d.Until("containerd:namesake", "the only one again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 0 })
}

// containers returns runtime and, of containerd, ID of all containers, sorted.
func containersOf(d *harness.Daemon, t *testing.T) []string {
	t.Helper()
	var all []struct{ Name, Runtime, ID string }
	_, body, err := d.Get("/v1/containers")
	if err == nil {
		err = json.Unmarshal([]byte(body), &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range all {
		switch {
		case c.Name != "namesake": // of another test
		case c.Runtime == "docker":
			texts = append(texts, c.Runtime)
		default:
			texts = append(texts, c.Runtime+" "+c.ID)
		}
	}
	slices.Sort(texts)
	return texts
}

const garbledSpec = `
[[spec]]
name = "garbled"
match = { e2e = "garbled" }
liveness = { exec = { command = ["test", "!", "-e", "/dev/shm/fail"] }, period = "200ms", failure_threshold = 1 }
`

// Labels that are not UTF-8 keep healthd from nothing but what they say.
func TestLabelsThatAreNotUTF8(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	c := containerdtest.Start(t)
	ctr := func(args ...string) {
		t.Helper()
		if out, err := c.Ctr(t, args...); strings.Contains(out, "UTF-8") {
			t.Skip("since 1.7, containerd takes no such labels")
		} else if err != nil {
			t.Fatal(out, err)
		}
	}
	ids := map[string]string{}
	for name, garbled := range map[string]string{"garbled-a": "bad\xff", "garbled-b": "healthd.liveness.period", "beside": ""} {
		id := c.Run(t, containerdtest.RunOptions{Name: name, Labels: map[string]string{"e2e": "garbled"}})
		if ids[name] = id; garbled != "" {
			ctr("containers", "label", id, garbled+"=\xff")
			t.Cleanup(func() { ctr("containers", "label", id, garbled+"=") }) // so that Run's cleanup can read it
		}
	}
	d := harness.StartedDaemon(harness.NewDaemonWith(t, c.Runtime(), garbledSpec))
	if s := d.Until("garbled-b", "known", func(harness.Status) bool { return true }); s.Invalid != "label healthd.liveness.period: must be UTF-8 text" {
		t.Errorf("garbled-b is invalid because of %q", s.Invalid)
	}
	before := d.Until("beside", "ready", harness.Ready)
	d.Until("garbled-a", "ready", harness.Ready)
	ctr("tasks", "exec", "--exec-id", "fail", ids["garbled-a"], "touch", "/dev/shm/fail")
	d.Until("garbled-a", "restarted", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	d.Until("beside", "as before", func(s harness.Status) bool {
		return s.Ready && s.RestartCount == 0 && s.State.Running.StartedAt.Equal(before.State.Running.StartedAt)
	})
}
