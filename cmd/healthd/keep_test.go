package main

import (
	"strings"
	"syscall"
	"testing"

	"healthd/runtime/docker/dockertest"
)

// What a hold has to outlive is above all a restart of healthd.
func TestHoldOutlivesTheDaemon(t *testing.T) {
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

func TestRebooted(t *testing.T) {
	now := bootID()
	if now == "" || now != bootID() {
		t.Errorf("boot %q", now)
	}
	for before, want := range map[string]bool{"": false, now: false, "another": true} {
		if got := rebooted(before, now); got != want {
			t.Errorf("%q: %v", before, got)
		}
	}
	if rebooted("another", "") {
		t.Error("nobody knows of this boot")
	}
}
