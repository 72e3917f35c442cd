package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// checkRPM installs, upgrades, downgrades and removes the package with the real rpm in a directory, with
// a systemctl that writes down what it is told.
func checkRPM(t *testing.T, dir, version string) {
	arch, ok := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if !ok {
		t.Fatalf("there is no package for %s", runtime.GOARCH)
	}
	newer := filepath.Join(dir, "out", "healthd-"+version+"-1."+arch+".rpm")
	run(t, dir, "echo '# of the version before' >> configs/healthd.toml && make packages DIST=older VERSION=0.0.9 FORMATS=rpm ARCHES="+runtime.GOARCH+" "+made)
	older := filepath.Join(dir, "older", "healthd-0.0.9-1."+arch+".rpm")
	root := t.TempDir()
	rpm := func(what string) string { return run(t, root, "rpm --root "+root+" "+what) }
	calls := func() string {
		text, _ := os.ReadFile(filepath.Join(root, "calls"))
		_ = os.Remove(filepath.Join(root, "calls"))
		return string(text)
	}
	run(t, root, `mkdir -p bin dev usr/bin run/systemd/system && : > dev/null && cp "$(command -v busybox)" bin/busybox && ln -s busybox bin/sh && ln -s busybox bin/echo &&
printf '#!/bin/sh\necho "$*" >> /calls\n' > usr/bin/systemctl && chmod 755 usr/bin/systemctl`)

	if out := run(t, root, "rpm --checksig --nosignature "+newer); !strings.HasSuffix(out, ": digests OK\n") {
		t.Errorf("checksig: %s", out)
	}
	rpm("-i " + older)
	if got := calls(); got != "--no-reload preset healthd.service\n" {
		t.Errorf("the installation called systemctl %q", got)
	}
	if out := rpm("-V healthd"); out != "" {
		t.Errorf("what is installed is not what was packed:\n%s", out)
	}
	if got := rpm("-qc healthd"); got != "/etc/default/healthd\n/etc/healthd/healthd.toml\n" {
		t.Errorf("configuration files: %q", got)
	}
	const edited = "[guard]\nmax_restarts = 3\n"
	config, state := filepath.Join(root, "etc/healthd/healthd.toml"), filepath.Join(root, "var/lib/healthd")
	write(t, config, edited)
	if err := os.MkdirAll(state, 0o750); err != nil {
		t.Fatal(err)
	}
	rpm("-U " + newer)
	if got := calls(); got != "daemon-reload\n--quiet is-active healthd.service\nrestart healthd.service\n" {
		t.Errorf("the upgrade called systemctl %q", got)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != edited {
		t.Errorf("the configuration after the upgrade: %q, %v", text, err)
	}
	if _, err := os.Stat(config + ".rpmnew"); err != nil {
		t.Errorf("the new configuration is not beside the edited one: %v", err)
	}
	write(t, config, "no = 1\n")
	if out := rpm("-U --oldpackage " + older); !strings.Contains(out, "healthd: not restarted: this version refuses the configuration") ||
		calls() != "daemon-reload\n--quiet is-active healthd.service\n" {
		t.Errorf("a downgrade to one that refuses the configuration: %s", out)
	}
	rpm("-e healthd")
	if got := calls(); got != "--no-reload disable --now healthd.service\ndaemon-reload\n" {
		t.Errorf("the removal called systemctl %q", got)
	}
	if got := run(t, root, "find usr/bin/healthd usr/lib/systemd usr/share/doc/healthd usr/share/man -type f 2>/dev/null; ls etc/healthd; ls -d var/lib/healthd"); got != "healthd.toml.rpmnew\nhealthd.toml.rpmsave\nvar/lib/healthd\n" {
		t.Errorf("left after the removal: %s", got)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
