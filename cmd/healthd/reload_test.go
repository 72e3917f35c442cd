package main

import (
	"errors"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"weak"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"healthd/configs"
	"healthd/runtime"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
	"healthd/supervisor/metrics"
)

// specFor is a [[spec]] for the containers with the label app=NAME.
func specFor(name string) string {
	return fmt.Sprintf("[[spec]]\nname = %q\nmatch = { app = %q }\n[spec.readiness]\ntcp_socket = { port = 8080 }\nperiod = \"100ms\"\n", name, name)
}

// reload gives the daemon another configuration and waits until it has read it.
func (p *process) reload(t *testing.T, specs string) (said []string) {
	t.Helper()
	p.configure(t, specs)
	before := monotonicMicroseconds(t)
	p.signal(syscall.SIGHUP)
	_, begin := p.notify.awaitAny(t, "RELOADING", func(s string) bool { return strings.HasPrefix(s, "RELOADING=1\n") })
	var at int64
	if _, err := fmt.Sscanf(begin, "RELOADING=1\nMONOTONIC_USEC=%d\n", &at); err != nil {
		t.Fatalf("%q: %v", begin, err)
	}
	if now := monotonicMicroseconds(t); at < before || at > now {
		t.Errorf("%q between %d and %d", begin, before, now)
	}
	return p.notify.await(t, "READY=1")
}

func monotonicMicroseconds(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / 1000
}

// reloadTo is reload that ends with that message, during it or after.
func (p *process) reloadTo(t *testing.T, specs, status string) {
	t.Helper()
	if !slices.Contains(p.reload(t, specs), status) {
		p.notify.await(t, status)
	}
}

func TestReload(t *testing.T) {
	engine := private.Engine(t)
	for _, name := range []string{"aa", "bb"} {
		engine.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"app": name}})
	}
	p := startDaemon(t, engine.Endpoint, specFor("aa"))
	p.notify.await(t, "READY=1")
	p.notify.await(t, "STATUS=1 container, 1 ready, 0 restarting")

	p.reloadTo(t, specFor("aa")+specFor("bb"), "STATUS=2 containers, 2 ready, 0 restarting")

	const refused = "STATUS=2 containers, 2 ready, 0 restarting; not reloaded: 2 problems in the configuration, see the log"
	if said := p.reload(t, "[[spec]]\nname = 3\nmtach = {}\n"); !slices.Contains(said, refused) {
		t.Errorf("before READY: %q", said)
	}
	if code, body := p.get(t, "/v1/ready/bb"); code != 200 {
		t.Errorf("after a bad configuration: %d %s", code, body)
	}

	p.reloadTo(t, specFor("bb")+specFor("bb2")+"[log]\nlevel = \"debug\"\n", "STATUS=1 container, 1 ready, 0 restarting")
	if code, _ := p.get(t, "/v1/containers/aa"); code != 404 {
		t.Errorf("aa is still supervised: %d", code)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		`"problem":"` + p.config + `:12: spec[#1].name: `, `"problem":"` + p.config + `:13: spec[#1].mtach: `,
		`"problems":2`, `"msg":"some changed settings need a restart of healthd","keys":["log.level"]`,
		`"msg":"the configuration was reloaded","specs":["aa","bb"]`, `"msg":"no longer supervised: 1 container (aa)"`,
	} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, p.log)
		}
	}
}

// The DNS listener answers until the daemon ends, and drains wait for those who ask it.
func TestReloadWithoutDNS(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "aa", Labels: map[string]string{"app": "aa"}})
	spec := specFor("aa") + "[spec.publish]\nport = 8080\n"
	p := startDaemon(t, engine.Endpoint, spec)
	p.notify.await(t, "STATUS=1 container, 1 ready, 0 restarting")
	p.daemon = strings.Replace(p.daemon, fmt.Sprintf("dns = %q\n", p.dns), "", 1)
	p.reload(t, spec)
	if got := p.askDNS(t, "aa.healthd."); len(got.Answer) != 1 {
		t.Errorf("it answers %v", got)
	}
	got := healthd(t, "explain", "aa", "--socket", p.socket)
	if want := "listen.dns before the reload"; !strings.Contains(got.stdout, want) {
		t.Errorf("no %q:\n%s%s", want, got.stdout, got.stderr)
	}
}

// A READY that ends a reload must not be the first one.
func TestReloadBeforeTheDaemonIsReady(t *testing.T) {
	systemd := listenNotifications(t)
	t.Setenv("NOTIFY_SOCKET", systemd.path)
	n := &notifier{log: zap.NewNop()}
	n.reloading()
	n.reloadDone("fine", reloadFailure(errors.New("no\x1b such file\nor so")))
	n.started()
	n.setStatus("fine")
	want := []string{"READY=1"}
	if got := systemd.await(t, "STATUS=fine; not reloaded: no? such file"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	n.reloading()
	n.reloadDone("fine", reloadFailure(nil))
	if got := systemd.await(t, "READY=1"); len(got) != 2 || !strings.HasPrefix(got[0], "RELOADING=1\nMONOTONIC_USEC=") || got[1] != "STATUS=fine" {
		t.Errorf("%q", got)
	}
}

func TestReloadOfAConfigurationThatIsGone(t *testing.T) {
	_, err := configs.Load([]string{filepath.Join(t.TempDir(), "none.toml")})
	if got, want := reloadFailure(err), "not reloaded: 1 problem in the configuration, see the log"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The daemon keeps the configuration that it began with, which must not keep the specs of its containers for ever.
func TestReloadLetsGoOfSpecs(t *testing.T) {
	parse := func() *configs.Config {
		t.Helper()
		c, err := configs.Parse("healthd.toml", []byte("[[spec]]\nname = \"web\"\nmatch_name = \"*\"\n[spec.liveness]\ntcp_socket = { port = 80 }\n"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d := &daemon{begun: parse(), reloadMetrics: metrics.NewReload()}
	d.use(d.begun)
	spec, err := d.begun.Resolve(runtime.Traits{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	kept := weak.Make(spec.Probes[core.Liveness])
	d.use(parse())
	goruntime.GC()
	if kept.Value() != nil {
		t.Error("after a reload a spec of the first configuration is kept")
	}
	goruntime.KeepAlive(d)
}
