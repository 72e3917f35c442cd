package engines

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const verdictSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
restart_policy = %[2]q
[spec.backoff]
initial = "1s"
[spec.%[3]s]
tcp_socket = { port = 8099 }
initial_delay = "1s"
period = "500ms"
`

// After a failed probe, a container with OnFailure is started again even if it exits with 0.
// With Never it stays stopped.
func policyAfterAFailedProbe(t *testing.T, e harness.Engine) {
	tests := []struct{ name, policy, probe, reason string }{
		{"onfailure-liveness", "OnFailure", "liveness", "LivenessFailed"},
		{"onfailure-startup", "OnFailure", "startup", "StartupFailed"},
		{"never-liveness", "Never", "liveness", "LivenessFailed"},
		{"never-startup", "Never", "startup", "StartupFailed"},
	}
	specs := "[guard]\nmax_restarts = 0\n"
	for _, tt := range tests {
		specs += fmt.Sprintf(verdictSpec, tt.name, tt.policy, tt.probe)
	}
	d := harness.StartDaemonOn(t, e, specs)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := d.In(t)
			e.Run(t, dockertest.RunOptions{Name: tt.name, Labels: map[string]string{"e2e": tt.name}})
			if tt.policy == "Never" {
				stopped := func(s harness.Status) bool {
					end := s.State.Terminated
					return end != nil && end.Reason == tt.reason && end.ExitCode == 0 && s.RestartCount == 0
				}
				d.Until(tt.name, "stopped", stopped)
				d.Stays(3*time.Second, tt.name, "stopped", stopped)
				return
			}
			s := d.Until(tt.name, "restarted", func(s harness.Status) bool { return s.RestartCount > 0 && s.State.Running != nil })
			if end := s.LastState.Terminated; end == nil || end.Reason != tt.reason || end.ExitCode != 0 {
				t.Errorf("the run before ended as %+v, want %s with exit code 0", end, tt.reason)
			}
		})
	}
}

// graces keeps the grace period of each container's first stop request.
type graces struct {
	p  *harness.Proxy
	mu sync.Mutex
	of map[string]string // by container ID
}

func (g *graces) stop(w http.ResponseWriter, r *http.Request) {
	id := strings.Split(harness.CallOf(r), "/")[2]
	g.mu.Lock()
	if _, ok := g.of[id]; !ok {
		g.of[id] = r.URL.Query().Get("t")
	}
	g.mu.Unlock()
	g.p.PassOn(w, r)
}

func (g *graces) first(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[id]
}

const (
	graceSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
%[2]s
[spec.liveness]
tcp_socket = { port = 8099 }
period = "1s"
%[3]s
`
	ofProbe = "termination_grace_period = \"3s\""
	ofSpec  = "termination_grace_period = \"4s\""
	preStop = "[spec.lifecycle]\npre_stop = "
)

// The grace is the failed probe's, else the spec's, else the container's own, else
// 30 s; a pre_stop hook takes its time from it, but never the last 2 s.
func TestGrace(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	g := &graces{p: harness.StartProxy(t, e), of: map[string]string{}}
	g.p.On("POST /containers/[0-9a-f]+/stop$", g.stop)
	own := 40
	tests := []struct {
		name         string
		spec, probe  string
		own          *int
		wants        []string // whole numbers of seconds
		kills, fails bool     // the engine has to kill; the hook fails
	}{
		{"grace-probe", ofSpec, ofProbe, &own, []string{"3"}, true, false},
		{"grace-spec", ofSpec, "", &own, []string{"4"}, false, false},
		{"grace-own", "", "", &own, []string{"40"}, false, false},
		{"grace-default", "", "", nil, []string{"30"}, false, false},
		{"grace-least", "", "termination_grace_period = \"1s\"", nil, []string{"2"}, false, false},
		// On a busy machine a sleep takes longer than it says.
		{"grace-hook", "", preStop + "{ sleep = { duration = \"3s\" } }", &own, []string{"37", "36"}, false, false},
		{"grace-long-hook", ofSpec, preStop + "{ exec = { command = [\"sleep\", \"100\"] } }", nil, []string{"2"}, false, true},
	}
	specs := "[guard]\nmax_restarts = 0\n"
	for _, tt := range tests {
		specs += fmt.Sprintf(graceSpec, tt.name, tt.spec, tt.probe)
	}
	d := harness.StartDaemon(t, g.p.Endpoint(), specs)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := d.In(t)
			o := dockertest.RunOptions{Name: tt.name, StopTimeout: tt.own, Labels: map[string]string{"e2e": tt.name}}
			if tt.kills {
				o.Cmd = []string{"/bin/testserver", "-ignore-term"}
			}
			id := e.Run(t, o)
			s := d.Until(tt.name, "restarted", harness.Restarted(1))
			if got := g.first(id); !slices.Contains(tt.wants, got) {
				t.Errorf("the engine was asked for a grace of %q s, want %s", got, tt.wants[0])
			}
			if code := s.LastState.Terminated.ExitCode; (code == 137) != tt.kills {
				t.Errorf("exit code %d", code)
			}
			if n := d.CountEvents(tt.name, "FailedPreStopHook"); (n == 1) != tt.fails {
				t.Errorf("%d events of a failed pre_stop hook", n)
			}
		})
	}
}
