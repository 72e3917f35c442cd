package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// scanPause lies between two looks for processes that are still there.
const scanPause = 5 * time.Millisecond

// tree is a command inside a container, as seen from the host: its process, what
// descends from it, what is in its session and what carries its mark.
type tree struct {
	root      int
	container string // full ID
	mark      string // an entry of the environment
}

// proc is one process, in the words of proc(5).
type proc struct {
	pid, ppid, session int
	state              byte
	start              uint64 // in clock ticks since the boot
}

// kill ends all of the tree, and returns when nothing is left of it. They are
// stopped first until no new ones appear, because a process can have children
// faster than it is found.
func (t tree) kill(ctx context.Context) error {
	root, err := readProc(t.root)
	if err != nil || !t.contains(t.root) {
		return fmt.Errorf("process %d of the engine's host cannot be seen from here", t.root)
	}
	stopped := map[int]bool{}
	sig := unix.SIGSTOP
	for {
		found := t.find(root)
		if len(found) == 0 {
			return nil
		}
		fresh := false
		var failed error // must not leave the others stopped
		for _, p := range found {
			fresh = fresh || !stopped[p.pid]
			stopped[p.pid] = true
			failed = errors.Join(failed, t.signal(p, sig))
		}
		switch {
		case sig == unix.SIGSTOP && fresh && failed == nil && ctx.Err() == nil:
			continue
		case sig == unix.SIGSTOP:
			sig = unix.SIGKILL
			continue
		case failed != nil:
			return failed
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of the command are still there: %w", len(found), ctx.Err())
		case <-time.After(scanPause):
		}
	}
}

// gone says that the tree's root has ended: other processes of its container can be
// seen from here, and it cannot.
func (t tree) gone() bool {
	if p, err := readProc(t.root); err == nil && t.contains(t.root) && p.alive() {
		return false
	}
	return len(t.processes()) > 0
}

// sweep kills the processes of the container that bear a mark of which leftover is
// true.
func (t tree) sweep(ctx context.Context, leftover func(mark string) bool) error {
	for {
		left := false
		for _, p := range t.processes() {
			if mark := markOf(p.pid); mark != "" && p.alive() && leftover(mark) {
				left = true
				if err := t.signal(p, unix.SIGKILL); err != nil {
					return err
				}
			}
		}
		if !left {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scanPause):
		}
	}
}

// processes returns the processes of the container, as far as they can be seen.
func (t tree) processes() []proc {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []proc
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !t.contains(pid) {
			continue
		}
		if p, err := readProc(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (p proc) alive() bool { return p.state != 'Z' && p.state != 'X' }

// find returns the living processes of the tree.
func (t tree) find(root proc) []proc {
	children := map[int][]proc{}
	var found []proc
	member := map[int]bool{}
	for _, p := range t.processes() {
		if p.start < root.start {
			continue // what is older than the command is none of it
		}
		children[p.ppid] = append(children[p.ppid], p)
		if (p.pid == root.pid && p.start == root.start) || p.session == root.pid || t.marked(p.pid) {
			member[p.pid] = true
			found = append(found, p)
		}
	}
	for i := 0; i < len(found); i++ {
		for _, c := range children[found[i].pid] {
			if !member[c.pid] {
				member[c.pid] = true
				found = append(found, c)
			}
		}
	}
	return slices.DeleteFunc(found, func(p proc) bool { return !p.alive() })
}

// signal reaches p or nobody: a pid that was given to another process meanwhile
// is left alone.
func (t tree) signal(p proc, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	defer unix.Close(fd)
	if now, err := readProc(p.pid); err != nil || now.start != p.start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	return nil
}

// contains says whether the process is in the container: its control group bears
// the container's ID. With a remote engine a pid may be anybody's here.
func (t tree) contains(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && t.container != "" && bytes.Contains(b, []byte(t.container))
}

func (t tree) marked(pid int) bool { return t.mark != "" && markOf(pid) == t.mark }

// markOf returns the mark in a process's environment; empty where there is none.
func markOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(marker+"=")) {
			return string(entry)
		}
	}
	return ""
}

func readProc(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat, whose second field may contain anything.
func parseStat(pid int, b []byte) (proc, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return proc{}, fmt.Errorf("cannot read the state of process %d", pid)
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	return proc{pid: pid, ppid: ppid, session: session, state: f[0][0], start: start}, errors.Join(err1, err2, err3)
}
