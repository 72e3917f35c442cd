package main

import (
	"healthd/e2e/ports"

	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"healthd/supervisor"
)

var errTaken = errors.New("cannot listen: another program listens there")

// attempts counts how often a starter tries to open, and opens at the last of these errors if that is nil.
func attempts(failures ...error) (open func() (*opened, error), count *int) {
	count = new(int)
	return func() (*opened, error) {
		err := failures[min(*count, len(failures)-1)]
		*count++
		if err != nil {
			return nil, err
		}
		return &opened{}, nil
	}, count
}

func TestStart(t *testing.T) {
	denied := fmt.Errorf("cannot make the socket: %w", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EROFS})
	for _, tt := range []struct {
		name           string
		systemd, again bool // systemd started it; the start before failed, too
		failures       []error
		tries          int
		took           time.Duration
		opens, setup   bool
		marked         bool // for the next start
	}{
		{"good", true, false, []error{nil}, 1, 0, true, false, false},
		{"good after a failure", true, true, []error{nil}, 1, 0, true, false, false},
		{"the first failure is told at once", true, false, []error{errTaken}, 1, 0, false, false, true},
		{"then healthd is patient", true, true, []error{errTaken, errTaken, errTaken, nil}, 4, 7 * time.Second, true, false, false},
		{"but not so long that a boot hangs", true, true, []error{errTaken}, 8, 60 * time.Second, false, false, true},
		{"never without systemd", false, true, []error{errTaken}, 1, 0, false, false, true},
		{"rights must be mended", true, true, []error{denied}, 1, 0, false, true, true},
		{"and so must settings", true, true, []error{setupError{errTaken}}, 1, 0, false, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mark := startMark(filepath.Join(t.TempDir(), "mark"))
			if tt.again {
				mark.set()
			}
			synctest.Test(t, func(t *testing.T) {
				open, tries := attempts(tt.failures...)
				s := &starter{open: open, notifier: &notifier{log: zap.NewNop()}, log: zap.NewNop(), systemd: tt.systemd, failed: mark}
				begin := time.Now()
				o, err := s.start(t.Context())
				_, setup := errors.AsType[setupError](err)
				if took := time.Since(begin); (o != nil) != tt.opens || (err == nil) != tt.opens || setup != tt.setup || *tries != tt.tries || took != tt.took || mark.isSet() != tt.marked {
					t.Errorf("%v after %d attempts and %v, mark %v", err, *tries, took, mark.isSet())
				}
			})
		})
	}
}

// An operator who restarts a healthd that waits is told at once what is wrong.
func TestStopWhileStarting(t *testing.T) {
	mark := startMark(filepath.Join(t.TempDir(), "mark"))
	mark.set()
	synctest.Test(t, func(t *testing.T) {
		open, _ := attempts(errTaken)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		s := &starter{open: open, notifier: &notifier{log: zap.NewNop()}, log: zap.NewNop(), systemd: true, failed: mark}
		if o, err := s.start(ctx); o != nil || err != nil || mark.isSet() {
			t.Errorf("%v, %v, mark %v", o, err, mark.isSet())
		}
	})
}

// Under systemd the exit code tells it what not to try again, and the status what to do.
func TestExitCodesUnderSystemd(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, "bad.toml", "nonsense = 1\n[log]\nlevel = 3\n")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	occupied := ports.Address(t)
	taken := startDaemon(t, "unix://"+filepath.Join(dir, "docker.sock"), "")
	taken.notify.await(t, "READY=1")
	port := write(t, "port.toml", fmt.Sprintf("[listen]\nhttp = %q\nagent = \"\"\ncontrol = %q\n[state]\ndir = \"\"\n", taken.http, filepath.Join(dir, "s")))
	noGroup := write(t, "group.toml", fmt.Sprintf("[listen]\nhttp = %q\nagent = \"\"\ncontrol = %q\ncontrol_group = \"no-such-group\"\n", occupied, filepath.Join(dir, "s")))
	for _, tt := range []struct {
		args           []string
		plain, systemd int
		status         string
	}{
		{[]string{"run", "--config", bad}, 1, 78, "cannot use the configuration: " + bad + ":1: nonsense: unknown key (and 1 more: healthd check): mend it, then systemctl restart healthd"},
		{[]string{"run", "--config", port}, 1, 1, "cannot listen on " + taken.http + ": another program listens there: stop it, or change listen.http"},
		{[]string{"run", "--config", noGroup}, 1, 78, noGroup + ":5: listen.control_group: there is no group \"no-such-group\" on this host (then: systemctl restart healthd)"},
		{[]string{"run", "--wrong"}, 2, 78, ""},
	} {
		if got := healthd(t, tt.args...); got.code != tt.plain {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, got.code, tt.plain, got.stderr)
		}
		n := listenNotifications(t)
		cmd := program(t, tt.args...)
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+n.path)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != tt.systemd {
			t.Errorf("%v: exit code %d under systemd, want %d", tt.args, got, tt.systemd)
		}
		if tt.status != "" {
			n.await(t, "STATUS="+tt.status)
		}
	}
}

// What systemd has not got is sent again, and told in the log once: a daemon whose READY is lost would be killed.
func TestSystemdThatDoesNotHear(t *testing.T) {
	away := filepath.Join(t.TempDir(), "away.sock")
	t.Setenv("NOTIFY_SOCKET", away)
	logged, logs := observer.New(zap.WarnLevel)
	n := &notifier{log: zap.New(logged)}
	for range 3 {
		n.setStatus("fine")
		if n.started() || n.ready {
			t.Error("READY although nobody has heard it")
		}
	}
	if logs.Len() != 1 {
		t.Errorf("logged %d times", logs.Len())
	}
	systemd := listenNotifications(t)
	t.Setenv("NOTIFY_SOCKET", systemd.path)
	n.setStatus("fine")
	if !n.started() {
		t.Error("systemd was not told")
	}
	if got := systemd.await(t, "READY=1"); !slices.Equal(got, []string{"STATUS=fine"}) {
		t.Errorf("before READY: %q", got)
	}
	// systemd ignores messages of more than 4096 bytes.
	n.setStatus(strings.Repeat("€", 5000))
	systemd.await(t, "STATUS="+strings.Repeat("€", maxStatus-1)+"…")
}

func TestWaitingLine(t *testing.T) {
	long := errors.New("cannot connect:\n" + strings.Repeat("x", 10_000) + "\x1b[2J")
	got := waitingLine([]supervisor.RuntimeView{{Name: "docker", Err: long}, {Name: "podman", Synced: true}, {Name: "docker-2"}})
	if !strings.HasPrefix(got, "waiting for docker: cannot connect: xxx") || !strings.HasSuffix(got, "…; docker-2") || len(got) > 400 {
		t.Errorf("got %q", got)
	}
	if got := waitingLine(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// An engine that is away later is told of beside the containers.
func TestLostLine(t *testing.T) {
	away := errors.New("cannot connect:\n\x1b[2J")
	got := lostLine([]supervisor.RuntimeView{
		{Name: "docker", Err: away, Synced: true}, {Name: "podman", Synced: true, Up: true, Err: away}, {Name: "docker-2", Err: away}, {Name: "docker-3", Synced: true},
	})
	if want := "; cannot reach docker: cannot connect: ?[2J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Who may not change groups gives the group an entry in the access control list.
func TestGroupByAccessControlList(t *testing.T) {
	dir, err := os.MkdirTemp("", "healthd-acl") // strangers may not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "file")
	const group, stranger = 12345, 54321
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, nil, 0o660), syscall.Setxattr(path, "system.posix_acl_access", socketACL(group), 0)); err != nil {
		t.Fatal(err)
	}
	read := func(groups ...uint32) error {
		cmd := exec.CommandContext(t.Context(), "cat", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger, Groups: groups}}
		return cmd.Run()
	}
	if err := read(group); err != nil {
		t.Errorf("a member: %v", err)
	}
	if err := read(); err == nil {
		t.Error("a stranger may read it")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
}
