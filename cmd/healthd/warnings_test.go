package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
	"healthd/supervisor/metrics"
)

func TestWarningsBelowTheTable(t *testing.T) {
	all := statuses()
	all[0].Warnings = []string{"one \x1b[2J thing that takes a good deal of words to be told, so that it does not fit on one line of the screen", "two"}
	all[2].Warnings = []string{"three"}
	var b bytes.Buffer
	if err := writeWarnings(&b, "", []string{"the daemon's"}, all, 100); err != nil {
		t.Fatal(err)
	}
	golden(t, "warnings.txt", b.String())
	all[3].Warnings = []string{"four", "five", "six", "seven"}
	b.Reset()
	if err := writeWarnings(&b, "", nil, all, 100); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasSuffix(got, "warning: web-3: five\nand 2 more: healthd explain NAME\n") {
		t.Errorf("%s", got)
	}
	b.Reset()
	if err := writeWarnings(&b, "", nil, all, unlimited); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasSuffix(got, "warning: web-3: six\nwarning: web-3: seven\n") {
		t.Errorf("in a pipe: %s", got)
	}
	b.Reset()
	if err := writeWarnings(&b, "", nil, statuses(), 100); err != nil || b.Len() > 0 {
		t.Errorf("of nothing: %q, %v", b.String(), err)
	}
}

// rushed gives a container less time than it asks for.
func rushed(v *core.View) {
	v.Container.StopTimeout, v.Spec.TerminationGracePeriod = time.Minute, 10*time.Second
}

const rushedText = "its own stop timeout is 1m0s, but healthd gives it only 10s after a failed liveness probe (termination_grace_period)"

func TestWarningsOfADaemon(t *testing.T) {
	socket, _ := daemonWith(t, &fake{warnings: []string{"autoheal runs, too"}}, container("web-1", rushed), container("web-2", nil))
	got := inside("status", "--socket", socket)
	if got.code != 0 || got.stderr != "warning: autoheal runs, too\nwarning: web-1: "+rushedText+"\n" {
		t.Errorf("status: %+v", got)
	}
	if got := inside("status", "-o", "json", "web-2", "--socket", socket); !strings.Contains(got.stdout, "\"warnings\": []\n") {
		t.Errorf("status -o json: %+v", got)
	}
	unwrapped := strings.Join(strings.Fields(inside("explain", "web-1", "--socket", socket).stdout), " ")
	if !strings.Contains(unwrapped, " warning "+rushedText+" ") {
		t.Errorf("explain: %s", unwrapped)
	}
	config := write(t, "good.toml", fmt.Sprintf("[listen]\ncontrol = %q\n", socket))
	for _, flags := range [][]string{{"--config", config}, {"--config", write(t, "other.toml", ""), "--socket", socket}} {
		got := inside(append([]string{"check"}, flags...)...)
		if want := "warning: web-1: " + rushedText + "\n"; got.code != 0 || got.stderr != want || !strings.HasSuffix(got.stdout, ".toml: 0 specs\nconfiguration is valid: 0 specs\n") {
			t.Errorf("check: %+v, want %q", got, want)
		}
	}
}

// With --daemon, a daemon must answer, and wrong labels are problems.
func TestCheckOfTheDaemon(t *testing.T) {
	wrong := func(v *core.View) { v.Spec, v.Service, v.Invalid = nil, "", "label healthd.nope: unknown key" }
	check := func(all ...*core.View) result {
		socket, _ := daemonWith(t, &fake{warnings: []string{"autoheal runs, too"}}, all...)
		return inside("check", "--daemon", "--config", write(t, "check.toml", ""), "--socket", socket)
	}
	const warnings = "warning: autoheal runs, too\nwarning: web-1: " + rushedText + "\n"
	got := check(container("web-1", rushed), container("web-2", nil))
	if got.code != 0 || got.stderr != warnings || !strings.HasSuffix(got.stdout, "\nthe daemon's containers are valid: 2 containers\n") {
		t.Errorf("of valid ones: %+v", got)
	}
	got = check(container("web-1", rushed), container("web-2", wrong))
	if want := warnings + "web-2 is Invalid, healthd does not supervise it: label healthd.nope: unknown key\nhealthd: cannot supervise 1 container: wrong labels\n"; got.code != 1 || got.stderr != want {
		t.Errorf("of a wrong one: %+v", got)
	}
	starting, _ := daemonWith(t, &fake{starting: true})
	got = inside("check", "--daemon", "--config", write(t, "starting.toml", ""), "--socket", starting)
	if want := "healthd: cannot check the daemon's containers: it does not know all of them yet: not ready: waiting for the first full list from docker (nobody answers)\n"; got.code != 1 || got.stderr != want {
		t.Errorf("of a daemon that does not know its containers yet: %+v", got)
	}
	none := filepath.Join(t.TempDir(), "none")
	if got := inside("check", "--daemon", "--config", write(t, "none.toml", ""), "--socket", none); got.code != 1 || !strings.Contains(got.stderr, "healthd: cannot ") {
		t.Errorf("without a daemon: %+v", got)
	}
}

// A configuration is no worse for a daemon that accepts and says nothing.
func TestCheckBesideADaemonThatHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	a.printContainerWarnings(t.Context(), newClient(socket, 50*time.Millisecond))
	if stderr.Len() > 0 {
		t.Errorf("%q", stderr.String())
	}
}

// lists is an engine that has only lists.
type lists struct {
	runtime.Source
	all []runtime.Summary
	err error
}

func (l *lists) List(context.Context) ([]runtime.Summary, error) { return l.all, l.err }

func TestRivals(t *testing.T) {
	running := func(image string) runtime.Summary {
		return runtime.Summary{Name: "nurse", Image: image, State: runtime.Running}
	}
	for _, tt := range []struct {
		s    runtime.Summary
		want bool
	}{
		{running("willfarrell/autoheal"), true},
		{running("registry.example:5000/ops/Autoheal:1.2"), true},
		{running("qmcgaw/deunhealth@sha256:0123"), true},
		{runtime.Summary{Image: "willfarrell/autoheal", State: runtime.Restarting}, true},
		{runtime.Summary{Image: "willfarrell/autoheal", State: runtime.Exited}, false},
		{runtime.Summary{Image: "willfarrell/autoheal", State: runtime.Created}, false},
		{running("healthd:0.1.0"), true},
		{runtime.Summary{Image: "healthd:0.1.0", State: runtime.Running, Self: true}, false},
		{running("autoheal/web"), false},
		{running("sha256:0123"), false},
		{running(""), false},
		{runtime.Summary{Name: "autoheal", Image: "busybox", State: runtime.Running}, false},
		{runtime.Summary{Name: "web", Image: "busybox", Labels: map[string]string{"autoheal": "true"}, State: runtime.Running}, false},
	} {
		if got := new(rivalDetector).isRival(tt.s); got != tt.want {
			t.Errorf("%+v: %v", tt.s, got)
		}
	}
}

// A daemon that observes restarts nothing: there is no second master.
func TestRivalsBesideADaemonThatObserves(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	docker := &lists{all: []runtime.Summary{{Name: "nurse", Image: "autoheal", State: runtime.Running}}}
	d := &daemon{reloadMetrics: metrics.NewReload(), engines: []*engine{{rivals: &rivalDetector{Source: docker, relist: time.Hour, log: zap.New(core)}}}}
	for _, tt := range []struct {
		observe          bool
		warnings, logged int
	}{{true, 0, 0}, {false, 1, 1}, {true, 0, 1}} {
		d.use(&configs.Config{Observe: tt.observe})
		if all, err := d.engines[0].rivals.List(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("the list is %v, %v", all, err)
		}
		if got := d.warnings(); len(got) != tt.warnings || logged.Len() != tt.logged {
			t.Errorf("observe %v: %q, logged %d times, want %d", tt.observe, got, logged.Len(), tt.logged)
		}
	}
}

func TestLookout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		docker := &lists{all: []runtime.Summary{{Name: "web", State: runtime.Running}}}
		l := &rivalDetector{Source: docker, engine: "docker", relist: time.Minute, log: zap.New(core)}
		d := &daemon{engines: []*engine{{rivals: l}}}
		list := func() {
			t.Helper()
			if all, err := l.List(t.Context()); len(all) != len(docker.all) || !errors.Is(err, docker.err) {
				t.Errorf("the list is %v, %v", all, err)
			}
		}
		list()
		if got := d.warnings(); got != nil {
			t.Errorf("of nobody: %q", got)
		}
		docker.all = append(docker.all, runtime.Summary{Name: "autoheal", Image: "autoheal", State: runtime.Running})
		list()
		time.Sleep(time.Minute)
		list()
		want := []string{"container autoheal (docker) runs beside healthd: by its image it also restarts unhealthy containers, and ignores drain, back-off and hold"}
		if got := d.warnings(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		docker.all, docker.err = nil, errors.New("gone")
		time.Sleep(3 * time.Minute)
		list()
		if got := d.warnings(); len(got) != 1 {
			t.Errorf("after three lists: %q", got)
		}
		time.Sleep(time.Second)
		if got := d.warnings(); got != nil {
			t.Errorf("later: %q", got)
		}
		if n := logged.Len(); n != 1 || logged.All()[0].ContextMap()["warning"] != want[0] {
			t.Errorf("logged %d times: %v", n, logged.All())
		}
	})
}

// Without CAP_SYS_ADMIN everything else works, and nobody is left to wonder.
func TestWarningsWithoutNamespaces(t *testing.T) {
	const why = "cannot enter the container's network namespace: operation not permitted"
	socket, _ := daemonWith(t, &fake{}, container("web-1", func(v *core.View) {
		v.CannotEnter, v.Container.Pid = why, 7
		v.Spec.Probes[core.Readiness] = &core.ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80, Via: prober.ViaContainer}}}
	}))
	const want = "its readiness probe cannot run: healthd " + why
	if got := strings.Join(strings.Fields(inside("explain", "web-1", "--socket", socket).stdout), " "); !strings.Contains(got, " warning "+want) {
		t.Errorf("explain: %s", got)
	}
	config := write(t, "good.toml", fmt.Sprintf("[listen]\ncontrol = %q\n", socket))
	if got := inside("check", "--config", config); got.code != 0 || got.stderr != "warning: web-1: "+want+"\n" {
		t.Errorf("check: %+v", got)
	}

	for text, level := range map[string]zapcore.Level{
		"liveness.tcp_socket = { port = 80, via = \"container\" }": zap.WarnLevel,
		"liveness.tcp_socket.port = 80":                            zap.InfoLevel,
	} {
		core, logged := observer.New(zap.DebugLevel)
		d := &daemon{log: zap.New(core)}
		c, err := configs.Load([]string{write(t, "spec.toml", "[[spec]]\nname = \"web\"\nmatch = { a = \"b\" }\nstartup.exec.command = [\"true\"]\n"+text)})
		if err != nil {
			t.Fatal(err)
		}
		d.logWarnings(c)
		if all := logged.FilterMessageSnippet("via").All(); len(all) > 0 {
			t.Errorf("logged %v", all)
		}
		d.cannotEnter = errors.New(why)
		d.logWarnings(c)
		if all := logged.FilterMessageSnippet("via").All(); len(all) != 1 || all[0].Level != level || all[0].ContextMap()["error"] != why {
			t.Errorf("%s: logged %v", text, all)
		}
	}
}
