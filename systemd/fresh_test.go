package systemd

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/docs/pagetest"
	"healthd/runtime/docker/dockertest"
)

const firstHour = "../docs/first-hour.md"

// composePlugin is where Debian has it: from trixie on.
const composePlugin = "/usr/libexec/docker/cli-plugins/docker-compose"

// freshMachine is a machine that has never seen healthd, with the engine and the HAProxy of its suite.
type freshMachine struct {
	*machine
	user string // who types, with sudo; empty: root
}

// The first hour works on machines that are as their distribution makes them, with its Docker, its
// HAProxy and its systemd. It is played word by word, from the package.
func TestFreshMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	t.Parallel()
	e := dockertest.Start(t)
	bookworm := importDebian(t, e, "bookworm", "docker", docker...)
	trixie := importDebian(t, e, "trixie", "docker", slices.Concat(docker, []string{"docker-cli", "docker-compose"})...)
	files := t.TempDir()
	run(t, "cp", "-a", debs(t)+"/.", files)
	images(t, files)
	// Debian 12 has no Compose: people take Docker's plugin. This is the same program.
	run(t, "install", "-D", "../bin/roots/trixie-docker"+composePlugin, files+composePlugin)
	for name, m := range map[string]struct{ image, user string }{
		"debian-12":   {bookworm, ""},
		"debian-13":   {trixie, ""},
		"ubuntu-like": {trixie, "ubuntu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := freshMachine{bootFresh(t, e, m.image, name, files), m.user}
			if m.user != "" {
				f.likeUbuntu()
			}
			f.playFirstHour()
		})
	}
}

// likeUbuntu makes a Debian what an Ubuntu is to a program and to who sits before it: it has another
// name, and nobody logs in as root.
func (f freshMachine) likeUbuntu() {
	f.must("rm", "/etc/os-release")
	f.file("/etc/os-release", `PRETTY_NAME="Ubuntu 24.04 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
`)
	f.sh("useradd --create-home --shell /bin/bash ubuntu; passwd --lock root")
	f.file("/etc/sudoers.d/ubuntu", "ubuntu ALL=(ALL) NOPASSWD:ALL\n")
}

// images are the page's, as far as it uses them: the machine has no registry.
func images(t *testing.T, root string) {
	t.Helper()
	dir := filepath.Join(root, "images")
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cp", busybox, filepath.Join(bin, "busybox"))
	for applet := range strings.FieldsSeq(run(t, busybox, "--list")) {
		if err := os.Symlink("busybox", filepath.Join(bin, applet)); err != nil && applet != "busybox" {
			t.Fatal(err)
		}
	}
	run(t, "tar", "-C", dir, "--exclude=*.tar", "-cf", filepath.Join(dir, "busybox.tar"), "bin")
	write(t, filepath.Join(bin, "pg_isready"), "#!/bin/sh\nexec nc 127.0.0.1 5432 </dev/null >/dev/null\n")
	if err := os.Chmod(filepath.Join(bin, "pg_isready"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-C", dir, "--exclude=*.tar", "-cf", filepath.Join(dir, "postgres.tar"), "bin")
}

// bootFresh boots a machine, and gives its engine the images.
func bootFresh(t *testing.T, e *dockertest.Engine, image, name, files string) *machine {
	t.Helper()
	m := bootAlone(t, e, image, name, files)
	m.must("docker", "import", "/images/busybox.tar", "busybox:1.37")
	m.must("docker", "import", "--change", `CMD ["httpd", "-f", "-p", "5432"]`, "/images/postgres.tar", "postgres:17")
	return m
}

// playFirstHour writes the files of the page, runs its commands, and compares what they print.
func (f freshMachine) playFirstHour() {
	f.t.Helper()
	for _, s := range pagetest.Steps(f.t, firstHour) {
		if s.Path() != "" {
			f.write(s.Block)
		} else {
			f.play(s)
		}
	}
}

func (f freshMachine) write(b pagetest.Block) {
	f.t.Helper()
	text := base64.StdEncoding.EncodeToString([]byte(b.Text))
	f.must("sh", "-c", fmt.Sprintf("mkdir -p %s && echo %s | base64 -d > %s", filepath.Dir(b.Path()), text, b.Path()))
}

func (f freshMachine) play(s pagetest.Step) {
	f.t.Helper()
	for _, c := range s.Commands() {
		try := func() error { return c.Check(f.typed(c.Text)) }
		begun := time.Now()
		if c.Looks() {
			f.await(c.Text, try)
		} else if err := try(); err != nil {
			f.t.Fatalf("%s:%d: %s: %v", firstHour, c.Line, c.Text, err)
		}
		f.t.Logf("%6.1f s  %s", time.Since(begun).Seconds(), c.Text)
	}
}

// typed returns what a command of the page prints when the user types it beside the packages.
func (f freshMachine) typed(command string) (printed string, err error) {
	argv := []string{"sh", "-c", "cd " + packageRoot + " && " + strings.ReplaceAll(command, "amd64", runtime.GOARCH)}
	if f.user != "" {
		argv = slices.Concat([]string{"runuser", "-u", f.user, "--", "sudo"}, argv)
	}
	printed, code := f.run(argv...)
	if code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return printed, err
}
