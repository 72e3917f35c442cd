package systemd

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link finds what a text refers to by a path of its own.
var link = regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)

// In a directory there is no healthd to stop. What the administrator wrote stays.
func TestUninstall(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-systemd runs it")
	}
	root := t.TempDir()
	run(t, "cp", "-a", installed(t)+"/.", root)
	said := run(t, "make", "-C", "..", "uninstall", "DESTDIR="+root, "PATH="+fakeSystemctl(t, "exit 1")+":"+os.Getenv("PATH"), "RUN_SYSTEMD="+root)
	var left []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil || !slices.Equal(left, []string{"/etc/default/healthd", "/etc/healthd/healthd.toml"}) {
		t.Errorf("left: %q, %v", left, err)
	}
	if want := "healthd: left are the configuration, " + root + "/etc/healthd and " + root + "/etc/default/healthd, and the journal, " + root + "/var/lib/healthd\n"; !strings.Contains(said, want) {
		t.Errorf("said %s, want %s", said, want)
	}
}

// On a host the unit is stopped while it is there. A healthd that cannot be stopped loses nothing.
func TestUninstallFromAHost(t *testing.T) {
	for _, tt := range []struct {
		name, systemctl string
		installed, runs bool   // the unit is; systemd does
		calls           string // of systemctl
		left            bool   // the unit is
	}{
		{"a unit", "", true, true, "disable --now healthd.service (unit)\ndaemon-reload\n", false},
		{"no unit", "", false, true, "daemon-reload\n", false},
		{"no systemd", "", true, false, "", false},
		{"a unit that does not stop", "exit 1", true, true, "disable --now healthd.service (unit)\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			unit, calls := filepath.Join(root, "lib/systemd/system", unit), filepath.Join(root, "calls")
			if tt.installed {
				if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, unit, "")
			}
			running := filepath.Join(root, "none")
			if tt.runs {
				running = root
			}
			systemctl := fakeSystemctl(t, "if [ -e "+unit+" ]; then echo \"$* (unit)\"; else echo \"$*\"; fi >> "+calls+"\n"+tt.systemctl)
			out, err := exec.CommandContext(t.Context(), "make", "-C", "..", "uninstall", "DESTDIR=", "PREFIX="+root, "SYSCONF="+root+"/etc", "RUN_SYSTEMD="+running,
				"PATH="+systemctl+":"+os.Getenv("PATH")).CombinedOutput()
			if (err != nil) != tt.left {
				t.Errorf("%v: %s", err, out)
			}
			called, err := os.ReadFile(calls)
			if err != nil && !errors.Is(err, fs.ErrNotExist) || string(called) != tt.calls {
				t.Errorf("called %q, %v, want %q", called, err, tt.calls)
			}
			if _, err := os.Stat(unit); (err == nil) != tt.left {
				t.Errorf("the unit: %v", err)
			}
		})
	}
}

// fakeSystemctl returns a directory with a systemctl that runs these lines.
func fakeSystemctl(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What is installed refers to nothing that is not.
func TestInstalledDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-systemd runs it")
	}
	root := installed(t)
	documents, links := 0, 0
	err := filepath.WalkDir(filepath.Join(root, "usr/local/share/doc/healthd"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		documents++
		text, err := os.ReadFile(path)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s refers to %s: %v", strings.TrimPrefix(path, root), found[1], err)
			}
		}
		return err
	})
	if err != nil || documents < 8 || links < 10 {
		t.Errorf("%d documents with %d links, %v", documents, links, err)
	}
}
