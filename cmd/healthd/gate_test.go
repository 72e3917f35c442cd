package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// gated makes a container one that two gates keep from being ready.
func gated(v *core.View) {
	v.Spec.ReadinessGates = []string{"example.com/warmed-up", "b", "c"}
	v.State.Gates = []core.Gate{{Type: "example.com/warmed-up", Status: true, At: clock.Add(-time.Hour)}, {Type: "b", At: clock.Add(-time.Minute)}}
	v.State.Conditions.Ready.Status, v.State.Conditions.Ready.Since = false, clock.Add(-time.Minute)
}

func TestGate(t *testing.T) {
	f := &fake{}
	socket, _ := daemonWith(t, f, container("web-1", nil), container("web-2", gated), container("web-3", func(v *core.View) {
		v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status, v.State.Action.Stopping = false, false, core.ByLiveness
	}))
	for _, tt := range []struct{ args, asked, said string }{
		{"web-1 a True", "a true", "web-1: a is True; ready\n"},
		{"web-2 example.com/warmed-up True", "example.com/warmed-up true",
			"web-2: example.com/warmed-up is True; not ready: ReadinessGatesNotReady: readiness gate b is False\n"},
		{"web-3 a?b#%2F False", "a?b#%2F false", "web-3: a?b#%2F is False; not ready: Draining\n"},
	} {
		got := inside(append(append([]string{"gate"}, strings.Fields(tt.args)...), "--socket", socket)...)
		if got.code != 0 || got.stdout != tt.said || got.stderr != "" || f.gate != tt.asked {
			t.Errorf("%s: asked %q, %+v, want %q, %q", tt.args, f.gate, got, tt.asked, tt.said)
		}
	}
}

func TestGateRefused(t *testing.T) {
	f := &fake{err: supervisor.ErrNoGate}
	socket, _ := daemonWith(t, f, container("web-2", gated))
	got := inside("gate", "web-2", "x", "True", "--socket", socket)
	want := "healthd: cannot set a gate of web-2: the container has no such readiness gate: \"x\"; it has example.com/warmed-up, b, c\n"
	if got.code != 1 || got.stderr != want || got.stdout != "" {
		t.Errorf("%+v, want %q", got, want)
	}
	f.err = errors.New("its labels are invalid: x")
	if got := inside("gate", "web-2", "b", "True", "--socket", socket); got.code != 1 ||
		got.stderr != "healthd: cannot set a gate of web-2: its labels are invalid: x\n" {
		t.Errorf("%+v", got)
	}
}

func TestGateCompletion(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil), container("web-2", gated))
	for args, want := range map[string]string{
		"": "web-1 web-2", "web-2": "example.com/warmed-up b c", "web-1": "", "nobody": "", "web-2 b": "True False", "web-2 b True": "",
	} {
		words := append([]string{"__complete", "--socket", socket, "gate"}, strings.Fields(args)...)
		got := inside(append(words, "")...)
		offered, _, _ := strings.Cut(got.stdout, ":4\n")
		if strings.Join(strings.Fields(offered), " ") != want || got.code != 0 {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

func TestOpenGates(t *testing.T) {
	for want, gates := range map[string][]api.Condition{
		"": nil, "0/1": {{Status: "False"}}, "1/2": {{Status: "False"}, {Status: "True"}}, "2/2": {{Status: "True"}, {Status: "True"}},
	} {
		if got := openGates(api.Status{Conditions: append(notReady(""), gates...)}); got != want {
			t.Errorf("%v: %s, want %s", gates, got, want)
		}
	}
}

func TestGateOfADaemon(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "gated", Labels: map[string]string{
		"healthd.liveness.tcp_socket.port": "8080", "healthd.readiness_gates": "example.com/warm",
	}})
	p := startDaemon(t, engine.Endpoint, "")
	p.notify.await(t, "STATUS=1 container, 0 ready, 0 restarting")
	set := func(status, want string, code int) {
		t.Helper()
		got := healthd(t, "gate", "gated", "example.com/warm", status, "--socket", p.socket)
		if said := "gated: example.com/warm is " + status + "; " + want + "\n"; got.code != 0 || got.stdout != said {
			t.Errorf("%+v, want %q", got, said)
		}
		if got, body := p.get(t, "/v1/ready/gated"); got != code {
			t.Errorf("after %s: %d %s, want %d", status, got, body, code)
		}
	}
	set("False", "not ready: ReadinessGatesNotReady: readiness gate example.com/warm is False", 503)
	set("True", "ready", 200)
	set("False", "not ready: ReadinessGatesNotReady: readiness gate example.com/warm is False", 503)
}
