package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/journal"
)

// What a hold has to outlive is above all a restart of healthd.
func TestHoldOutlivesTheDaemon(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	engine.Run(t, dockertest.RunOptions{Name: "aa", Labels: map[string]string{"app": "aa"}})
	p := startDaemon(t, engine.Endpoint, specFor("aa"))
	p.notify.await(t, "READY=1")
	if got := healthd(t, "hold", "aa", "--for", "1h", "--socket", p.socket); got.stdout != "aa: held for 1h0m0s\n" {
		t.Fatalf("%+v", got)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.start(t)
	p.notify.await(t, "READY=1")
	p.notify.await(t, "STATUS=1 container, 1 ready, 0 restarting, 1 held")
	if got := healthd(t, "events", "aa", "--socket", p.socket); !strings.Contains(got.stdout, "  Held  ") {
		t.Errorf("the events of before are gone: %+v", got)
	}
}

// keptBoot is the boot that the daemons so far have left to the next one.
func (p *process) keptBoot(t *testing.T) string {
	t.Helper()
	j, err := journal.Open(journal.Config{Dir: p.state})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Boot("docker")
}

// A daemon whose engine never answered has not taken in that the host was started anew.
func TestBootIsTakenWhenTheEngineHasAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-engines runs it")
	}
	engine := private.Engine(t)
	away := "unix://" + filepath.Join(t.TempDir(), "docker.sock")
	p := newProcess(t, away, specFor("aa"))
	j, err := journal.Open(journal.Config{Dir: p.state, Boot: "another"})
	if err != nil {
		t.Fatal(err)
	}
	j.BootTaken("docker")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := errors.Join(j.Run(ended), j.Close()); err != nil {
		t.Fatal(err)
	}
	live := func(sign string) {
		p.start(t)
		p.notify.awaitAny(t, sign, func(got string) bool { return strings.Contains(got, sign) })
		p.signal(syscall.SIGTERM)
		p.wait()
	}
	live("WATCHDOG=1")
	if got := p.keptBoot(t); got != "another" {
		t.Errorf("the next daemon gets boot %q without BootTaken", got)
	}
	p.daemon = strings.Replace(p.daemon, away, engine.Endpoint, 1)
	p.configure(t, specFor("aa"))
	live(" restarting") // the counts, which follow the first full list
	if got := p.keptBoot(t); got != bootID() {
		t.Errorf("the next daemon gets boot %q, want %q", got, bootID())
	}
}

func TestRebooted(t *testing.T) {
	now := bootID()
	if now == "" || now != bootID() {
		t.Errorf("boot %q", now)
	}
	for before, want := range map[string]bool{"": false, now: false, "another": true} {
		if got := wasRebooted(before, now); got != want {
			t.Errorf("%q: %v", before, got)
		}
	}
	if wasRebooted("another", "") {
		t.Error("nobody knows of this boot")
	}
	engines, err := openEngines(&configs.Config{Runtimes: []configs.Runtime{
		{Name: "containerd", Type: "containerd", Endpoint: "unix:///run/containerd/containerd.sock", Namespaces: []string{"default"}},
		{Name: "socket", Type: "docker", Endpoint: "unix:///run/docker.sock"},
		{Name: "proxy", Type: "docker", Endpoint: "tcp://127.0.0.1:2375"},
		{Name: "proxy-by-name", Type: "docker", Endpoint: "http://localhost:2375"},
		{Name: "any", Type: "docker", Endpoint: "tcp://0.0.0.0:2375"},
		{Name: "remote", Type: "docker", Endpoint: "tcp://192.0.2.1:2375"},
		{Name: "remote-by-name", Type: "docker", Endpoint: "tcp://docker.example:2375"},
	}}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer closeEngines(engines)
	boots := map[string]string{"proxy": now}
	before := func(name string) string { return cmp.Or(boots[name], "another") }
	if got := rebooted(engines, before, now); !slices.Equal(got, []string{"containerd", "socket", "proxy-by-name", "any"}) {
		t.Errorf("the engines of %v have ended with the host", got)
	}
}
